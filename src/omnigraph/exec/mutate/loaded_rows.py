"""Rows of an input as changes of a transaction.

It is imported when a transaction loads: queries need nothing of the loader.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from omnigraph.dataplane.load.entities import Entities, with_defaults
from omnigraph.exec.mutate.pending import PendingChanges
from omnigraph.exec.mutate.type_changes import LoadedRow
from omnigraph.exec.mutate.values import Stored
from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.lang.ir.expr import Column, EntityRef
from omnigraph.lang.ir.ops import EmbedSpec
from omnigraph.lang.query.scope import entity_ref
from omnigraph.rules.report import joined
from omnigraph.rules.unique import judge_ids
from omnigraph.rules.violation import Violations


def load_entities(
    pending: PendingChanges, catalog: Catalog, entities: Sequence[Entities], *, is_merge: bool
) -> dict[EntityRef, int]:
    """Take entities that were read from an input; how many of each type were touched.

    Args:
        pending: The changes so far.
        catalog: The schema.
        entities: What was read. The keys of all are judged before the first is taken.
        is_merge: Entities that exist get what the rows name; otherwise they are violations.

    Raises:
        ConstraintViolated: A key exists already, or is twice in the input.
    """
    by_type: dict[EntityRef, list[Entities]] = {}
    for item in entities:
        by_type.setdefault(entity_ref(item.entity), []).append(item)
    known, out = {}, Violations()
    for ref, items in by_type.items():
        names = joined(pa.chunked_array([item.names for item in items], pa.string())).drop_null()
        found = pending.changes_of(ref).known(names.to_pylist())
        taken = None if is_merge else pa.array(found, pa.string())
        judge_ids(items[0].entity, names, out, committed=taken)
        known[ref] = found
    out.raise_if_any()
    for ref, items in by_type.items():
        entity = items[0].entity
        if isinstance(entity, EdgeType):
            ends = (catalog.node_by_name[name] for name in (entity.source, entity.target))
            source, target = map(entity_ref, ends)
            pending.note_ends(ref, source, target)
        for item in items:
            pending.changes_of(ref).put_rows(_rows(item, known[ref]))
    touched = {ref: pending.changes_of(ref).end_query() for ref in by_type}
    return {ref: count for ref, count in touched.items() if count}


def _rows(entities: Entities, known: Mapping[str, Mapping[str, Stored]]) -> list[LoadedRow]:
    """Whole images: of new entities with defaults, of others with what the rows do not name."""
    ids = entities.rows.column("id").to_pylist()
    is_new = pa.array([name not in known for name in ids], pa.bool_())
    specs = _embeds(entities.entity)
    found = []
    for part in (with_defaults(entities.filter(is_new)), _of_known(entities, is_new)):
        absent = {name: mask.to_pylist() for name, mask in part.absent.items()}
        for place, row in enumerate(part.rows.to_pylist()):
            left = {name for name, mask in absent.items() if mask[place]}
            before = known.get(row["id"])
            named = {name: value for name, value in row.items() if name not in left}
            # A vector belongs to its text: where only the text is named, it is computed.
            wanted = [spec for spec in specs if _is_computed(spec, left, row)]
            cleared = {spec.target.name: None for spec in wanted}
            image = row if before is None else {**before, **named}
            source = None if before is None else before.get("src")
            assert source is None or isinstance(source, str)
            found.append(LoadedRow({**image, **cleared}, tuple(wanted), source))
    return found


def _of_known(entities: Entities, is_new: pa.Array) -> Entities:
    return entities.filter(pa.array([not each for each in is_new.to_pylist()], pa.bool_()))


def _is_computed(spec: EmbedSpec, left: set[str], row: Mapping[str, Stored]) -> bool:
    target, source = spec.target.name, spec.source.name
    return source not in left and (target in left or row[target] is None)


def _embeds(entity: EntityType) -> list[EmbedSpec]:
    columns = {item.name: Column(item.name, item.type) for item in entity.properties}
    return [
        EmbedSpec(columns[item.name], columns[item.embed.source], item.embed.model)
        for item in entity.properties
        if item.embed is not None
    ]
