"""Types of a schema by their names."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.core.layout import table_key
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.source import did_you_mean


def chosen_types(catalog: Catalog, names: Sequence[str] | None) -> tuple[EntityType, ...]:
    """The named types, or all: nodes before edges, each by name.

    Raises:
        InvalidInput: There is no such type.
    """
    everything: tuple[EntityType, ...] = (*catalog.nodes, *catalog.edges)
    if names is None:
        return everything
    if isinstance(names, str):
        raise InvalidInput(Code.INPUT_INVALID, "`types` is a list of names, not one text")
    wanted: set[str] = set()
    for name in names:
        found = [_key(item) for item in everything if name in (item.name, _key(item))]
        if not found:
            raise _unknown_type(str(name), everything)
        wanted.update(found)
    return tuple(item for item in everything if _key(item) in wanted)


def _key(entity: EntityType) -> str:
    return table_key(entity.kind, entity.name)


def _unknown_type(name: str, known: Sequence[EntityType]) -> InvalidInput:
    spellings = {item.name for item in known}
    if ":" in name:
        spellings = {_key(item) for item in known}
    hint = did_you_mean(name, spellings)
    text = f"the schema has no type {name!r}" + (f"; {hint}" if hint else "")
    return InvalidInput(Code.INPUT_INVALID, text, type=name)
