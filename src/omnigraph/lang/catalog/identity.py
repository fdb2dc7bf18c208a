"""Identity that survives renames: type ids and property ids.

A type's id is the hash of the name it was born with, and the name of its folder on disk. A
property's id counts up within its type. An id is never given twice: what is dropped and declared
again is something new. Node and edge types have separate folders, hence separate id spaces.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from omnigraph.lang.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, Property

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 2**64 - 1

ENDS = ("src", "dst")
_END_ORDER = {"src": -2, "dst": -1}

_Entity = TypeVar("_Entity", NodeType, EdgeType)


def fnv1a64(text: str) -> str:
    """The 64-bit FNV-1a hash of a text as 16 hexadecimal digits."""
    value = _FNV_BASIS
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return f"{value:016x}"


def mint_type_id(name: str, taken: Container[str]) -> str:
    """The id of a new type: the hash of its name, or of `name#2` and so on while it is taken."""
    candidate = fnv1a64(name)
    for attempt in count(2):
        if candidate not in taken:
            break
        candidate = fnv1a64(f"{name}#{attempt}")
    return candidate


def mint_type_ids(names: Iterable[str]) -> dict[str, str]:
    """The ids of the types of a new graph."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names):
        ids[name] = mint_type_id(name, taken)
        taken.add(ids[name])
    return ids


def adopt(wanted: Catalog, accepted: Catalog) -> Catalog:
    """`wanted` with the ids of `accepted` where a type or property continues an old one.

    An entry continues the one of the same name, or the one its rename hint names. The result
    carries no hints any more: what they said is in the ids. Adopting again changes nothing.
    """
    nodes = _adopt_types(wanted.nodes, accepted.nodes, accepted.retired)
    edges = _adopt_types(wanted.edges, accepted.edges, accepted.retired)
    retired = set(accepted.retired)
    retired |= {item.id for item in accepted.nodes} - {item.id for item in nodes}
    retired |= {item.id for item in accepted.edges} - {item.id for item in edges}
    return Catalog(
        nodes=nodes,
        edges=edges,
        interfaces=tuple(plain_interface(item) for item in wanted.interfaces),
        enums=wanted.enums,
        retired=tuple(sorted(retired)),
    )


def match_names(
    wanted: Iterable[tuple[str, str | None]], accepted: Collection[str]
) -> dict[str, str]:
    """Which accepted name each wanted name continues, given `(name, rename hint)` pairs.

    A hint is stale, and ignored, once its new name exists in `accepted`: it has been applied.
    The exception is a chain: when `C` takes over `B`, a hint from `A` to `B` is live again.
    """
    items = sorted(wanted)
    continues: dict[str, str] = {}
    moved: set[str] = set()
    progress = True
    while progress:
        progress = False
        for name, old in items:
            if name in continues or old is None or old == name:
                continue
            free = name not in accepted or name in moved
            if free and old in accepted and old not in moved:
                continues[name] = old
                moved.add(old)
                progress = True
    for name, _ in items:
        if name not in continues and name in accepted and name not in moved:
            continues[name] = name
    return continues


def _adopt_types(
    wanted: Sequence[_Entity], accepted: Sequence[_Entity], retired: Iterable[str]
) -> tuple[_Entity, ...]:
    by_name = {item.name: item for item in accepted}
    continues = match_names(((item.name, item.renamed_from) for item in wanted), by_name)
    taken = {item.id for item in accepted}.union(retired)
    adopted: list[_Entity] = []
    for item in wanted:
        old = by_name[continues[item.name]] if item.name in continues else None
        if old is not None:
            type_id = old.id
        else:
            type_id = mint_type_id(item.name, taken)
            taken.add(type_id)
        adopted.append(_adopt_properties(item, old, type_id))
    return tuple(adopted)


def _adopt_properties(item: _Entity, old: _Entity | None, type_id: str) -> _Entity:
    old_ids = {prop.name: prop.id for prop in old.properties} if old is not None else {}
    next_id = old.next_property_id if old is not None else 1
    hints = ((prop.name, prop.renamed_from) for prop in item.properties)
    continues = match_names(hints, old_ids)
    properties: list[Property] = []
    for prop in item.properties:
        if prop.name in continues:
            number = old_ids[continues[prop.name]]
        else:
            number, next_id = next_id, next_id + 1
        if prop.id != number or prop.renamed_from is not None:
            prop = replace(prop, id=number, renamed_from=None)  # noqa: PLW2901
        properties.append(prop)
    ids = {prop.name: prop.id for prop in properties}
    return replace(
        item,
        id=type_id,
        properties=tuple(properties),
        next_property_id=next_id,
        renamed_from=None,
        key=order_columns(item.key, ids),
        uniques=tuple(sorted(order_columns(columns, ids) for columns in item.uniques)),
        indexes=tuple(sorted(order_columns(columns, ids) for columns in item.indexes)),
    )


def order_columns(columns: tuple[str, ...], ids: Mapping[str, int]) -> tuple[str, ...]:
    """Columns in the one order that renames cannot change: the ends of an edge, then by id."""
    if len(columns) < 2:
        return columns
    return tuple(sorted(columns, key=lambda name: ids[name] if name in ids else _END_ORDER[name]))


def plain_interface(item: InterfaceType) -> InterfaceType:
    """Interfaces are not stored, so their property ids are mere numbering."""
    properties = tuple(
        replace(prop, id=number, renamed_from=None)
        for number, prop in enumerate(item.properties, 1)
    )
    return InterfaceType(name=item.name, properties=properties)
