"""Identity that survives renames: type ids and property ids.

A type's id is the hash of its first name, and the name of its folder on disk. A property's id
counts up within its type. An id is never given twice: what is dropped and declared again is
something new. Node and edge types have separate folders, hence separate id spaces.

Two branches that each declare a property count to the same number. So a property has an identity
besides, from the name it was declared with; what two branches declare alike is the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, TypeVar

from omnigraph.lang.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, Property

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 2**64 - 1

# The name that a property was declared with, numbered when the type had one of that name before.
DECLARED_NAME: Final = re.compile(r"[a-z_][A-Za-z0-9_]*(#[1-9][0-9]*)?")

ENDS = ("src", "dst")
# The names of the ends of an edge in inputs, queries and results, and their columns.
END_COLUMNS: Final = {"from": "src", "to": "dst"}
END_NAMES: Final = {column: name for name, column in END_COLUMNS.items()}
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


def mint_identity(name: str, taken: Container[str]) -> str:
    """The identity of a new property: its name, or `name#2` and so on while it is taken."""
    candidate = name
    for attempt in count(2):
        if candidate not in taken:
            break
        candidate = f"{name}#{attempt}"
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

    An entry continues the one its rename hint names, or else the one of the same name, see
    `match_names`. The result carries no hints any more: what they said is in the ids. Adopting
    again changes nothing.
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
    """The accepted name that each wanted name continues, from `(name, rename hint)` pairs.

    A live hint takes its old entry whatever had the new name before. A hint is stale, and means
    nothing, when it has been applied: the old name is gone from `accepted`; or both names are
    there and the old one stays what it is. It does not stay when a live hint takes its name, as
    in a chain from `A` to `B` to `C`. Hints in a cycle look like applied ones, so they
    are stale here, and the planner refuses them.
    """
    hints = {name: None if old == name else old for name, old in sorted(wanted)}
    live: dict[str, bool] = {}
    for name in hints:
        _resolve_hint(name, hints, accepted, live)
    continues: dict[str, str] = {}
    moved: set[str] = set()
    for name, old in hints.items():
        if live[name] and old is not None and old not in moved:
            continues[name] = old
            moved.add(old)
    for name in hints:
        if name not in continues and name in accepted and name not in moved:
            continues[name] = name
    return continues


def _resolve_hint(
    name: str,
    hints: Mapping[str, str | None],
    accepted: Collection[str],
    live: dict[str, bool],
) -> None:
    """Decide a hint, and on the way those that it depends on."""
    chain: list[str] = []
    on_chain: set[str] = set()
    decided = False
    at = name
    while True:
        if at in live:
            decided = live[at]
            break
        chain.append(at)
        on_chain.add(at)
        old = hints[at]
        if old is None or old not in accepted or old in on_chain:
            break
        if old not in hints or at not in accepted:
            decided = True
            break
        at = old
    live.update(dict.fromkeys(chain, decided))


def hint_cycles(wanted: Iterable[tuple[str, str | None]]) -> list[tuple[str, ...]]:
    """The names whose rename hints lead back to themselves, each cycle from its least name on."""
    hints = {name: old for name, old in sorted(wanted) if old is not None and old != name}
    seen: set[str] = set()
    cycles: list[tuple[str, ...]] = []
    for name in hints:
        path: dict[str, None] = {}
        at: str | None = name
        while at in hints and at not in seen:
            seen.add(at)
            path[at] = None
            at = hints[at]
        if at in path:
            names = list(path)
            cycle = names[names.index(at) :]
            first = cycle.index(min(cycle))
            cycles.append((*cycle[first:], *cycle[:first]))
    return cycles


def hints_of(
    items: Iterable[NodeType | EdgeType | Property],
) -> Iterator[tuple[str, str | None]]:
    """The names of types or properties, each with its rename hint."""
    return ((item.name, item.renamed_from) for item in items)


def _adopt_types(
    wanted: Sequence[_Entity], accepted: Sequence[_Entity], retired: Iterable[str]
) -> tuple[_Entity, ...]:
    by_name = {item.name: item for item in accepted}
    continues = match_names(hints_of(wanted), by_name)
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
    known = old.property_by_name if old is not None else {}
    next_id = old.next_property_id if old is not None else 1
    retired = set(old.retired) if old is not None else set()
    taken = {prop.identity for prop in known.values()} | retired
    continues = match_names(hints_of(item.properties), known)
    properties: list[Property] = []
    for prop in item.properties:
        if prop.name in continues:
            before = known[continues[prop.name]]
            number, identity, fill = before.id, before.identity, before.fill
        else:
            number, next_id = next_id, next_id + 1
            identity = mint_identity(prop.name, taken)
            taken.add(identity)
            # Rows that are stored already get the default of a property that has to have a value.
            fill = None if old is None or prop.type.nullable else prop.default
        birth_name = None if identity == prop.name else identity
        adopted = replace(prop, id=number, renamed_from=None, birth_name=birth_name, fill=fill)
        properties.append(prop if adopted == prop else adopted)
    ids = {prop.name: prop.id for prop in properties}
    retired |= {prop.identity for prop in known.values()}
    retired -= {prop.identity for prop in properties}
    return replace(
        item,
        id=type_id,
        properties=tuple(properties),
        next_property_id=next_id,
        retired=tuple(sorted(retired)),
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
