"""Blob cells, read by their own call: no query ever carries their bytes."""

from __future__ import annotations

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, InvalidInput, LimitExceeded, NotFound
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import Base
from omnigraph.store.reading.blob_values import BlobRange, read_blob
from omnigraph.store.table import ROW_ID

# What one call returns at most; a longer value is read range by range.
BLOB_BYTES_MAX = 1 << 30


def read_cell(
    repo: Repository,
    snapshot: GraphVersion,
    catalog: Catalog,
    type_name: str,
    entity_id: str,
    property_name: str,
    *,
    offset: int,
    length: int | None,
) -> BlobRange | None:
    """Bytes of one blob property of one entity; None when the property is null."""
    if not all(isinstance(each, str) for each in (type_name, entity_id, property_name)):
        raise InvalidInput(Code.INPUT_INVALID, "a type, an id and a property are texts")
    if not all(isinstance(each, int) for each in (offset, length or 0)):
        raise InvalidInput(Code.INPUT_INVALID, "a range is two whole numbers")
    if offset < 0 or (length is not None and length < 0):
        raise InvalidInput(Code.INPUT_INVALID, "a range begins and ends at or after 0")
    if length is not None and length > BLOB_BYTES_MAX:
        raise LimitExceeded(
            Code.LIMIT_EXCEEDED,
            f"one call reads {BLOB_BYTES_MAX} bytes at most; read the value in ranges",
            bound="BLOB_BYTES_MAX",
            limit=BLOB_BYTES_MAX,
        )
    entity = _entity(catalog, type_name, property_name)
    table = repo.table(snapshot.pin(table_key(entity.kind, entity.name)))
    with storage_errors():
        found = table.locate([entity_id] if _storable(entity_id) else [])
        if not found.num_rows:
            text = f"{type_name} {entity_id!r} does not exist"
            raise NotFound(Code.NOT_FOUND, text, type=type_name, id=entity_id)
        row_id = int(found.column(ROW_ID)[0].as_py())
        cut = BLOB_BYTES_MAX if length is None else length
        cell = read_blob(table, property_name, row_id, offset=offset, length=cut)
    if cell is not None and length is None and cell.size - offset > BLOB_BYTES_MAX:
        raise LimitExceeded(
            Code.LIMIT_EXCEEDED,
            f"the value has {cell.size} bytes, one call reads {BLOB_BYTES_MAX}: give a range",
            bound="BLOB_BYTES_MAX",
            limit=BLOB_BYTES_MAX,
        )
    return cell


def _storable(text: str) -> bool:
    """True if an entity can have this id: half a character cannot be stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entity(catalog: Catalog, type_name: str, property_name: str) -> EntityType:
    """The type that has this blob; a node type before an edge type of the same name."""
    found: list[EntityType] = [
        kinds[type_name]
        for kinds in (catalog.node_by_name, catalog.edge_by_name)
        if type_name in kinds
    ]
    if not found:
        known = [*catalog.node_by_name, *catalog.edge_by_name]
        raise _unknown(f"there is no type `{type_name}`", type_name, known)
    for entity in found:
        declared = entity.property_by_name.get(property_name)
        if declared is not None and declared.type.base is Base.BLOB:
            return entity
    known = [item.name for item in found[0].properties if item.type.base is Base.BLOB]
    raise _unknown(f"`{type_name}` has no blob `{property_name}`", property_name, known)


def _unknown(text: str, name: str, known: list[str]) -> InvalidInput:
    hint = did_you_mean(name, known)
    return InvalidInput(Code.INPUT_INVALID, f"{text}; {hint}" if hint else text, name=name)
