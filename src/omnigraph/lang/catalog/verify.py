"""Checks of a catalog that was read back, so that later code can rely on its invariants.

Only damage can break these rules: the checker refuses a schema that does, and explains why. Here
the first broken one is `Corrupt`, with the path of the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from omnigraph.errors import Code, Corrupt
from omnigraph.lang.catalog import rules
from omnigraph.lang.catalog.identity import DECLARED_NAME, ENDS, order_columns
from omnigraph.lang.catalog.model import (
    Cardinality,
    Catalog,
    CustomAnnotation,
    EdgeType,
    EnumType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.lang.catalog.pattern import pattern_fault
from omnigraph.lang.fit import normal
from omnigraph.lang.values import Base, ValueType

_ID = re.compile(r"[0-9a-f]{16}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Sortable = TypeVar("_Sortable", str, tuple[str, ...])
_Enums = Mapping[str, tuple[str, ...]]


def corrupt(path: str, complaint: str) -> Corrupt:
    """The error for a stored schema that cannot be."""
    # A damaged name can be anything; an error must be printable.
    place = path.encode("ascii", "backslashreplace").decode()
    return Corrupt(Code.CORRUPT, f"stored schema: `{place}` {complaint}", path=place)


def verify(catalog: Catalog) -> None:
    """Check names, identities, references and rules."""
    _names("catalog.nodes", [item.name for item in catalog.nodes], rules.TYPE_NAME)
    _names("catalog.edges", [item.name for item in catalog.edges], rules.TYPE_NAME)
    _names("catalog.interfaces", [item.name for item in catalog.interfaces], rules.TYPE_NAME)
    _names("catalog.enums", [item.name for item in catalog.enums], rules.TYPE_NAME)
    if len(catalog.edge_by_folded_name) != len(catalog.edges):
        raise corrupt("catalog.edges", "have names that differ only in case")
    interfaces = {item.name: item for item in catalog.interfaces}
    for index, enum in enumerate(catalog.enums):
        taken = enum.name in interfaces or enum.name in catalog.node_by_name
        _enum(enum, f"catalog.enums[{index}]", taken=taken)
    enums = {item.name: item.values for item in catalog.enums}
    for index, interface in enumerate(catalog.interfaces):
        _interface(interface, f"catalog.interfaces[{index}]", enums)
    for index, node in enumerate(catalog.nodes):
        _node(node, f"catalog.nodes[{index}]", interfaces, enums)
    for index, edge in enumerate(catalog.edges):
        _edge(edge, f"catalog.edges[{index}]", catalog, enums)
    _identities(catalog)


def _names(path: str, names: list[str], form: re.Pattern[str]) -> None:
    for index, name in enumerate(names):
        if not form.fullmatch(name):
            raise corrupt(f"{path}[{index}].name", "is not a name")
    if not _ascending(names):
        raise corrupt(path, "are not in the order of their names")


def _ascending(items: Sequence[_Sortable]) -> bool:
    """True if these are sorted and distinct."""
    return all(left < right for left, right in pairwise(items))


def _identities(catalog: Catalog) -> None:
    if not _ascending(catalog.retired):
        raise corrupt("catalog.retired", "are not in order")
    live: list[set[str]] = []
    groups: tuple[tuple[str, Sequence[NodeType | EdgeType]], ...] = (
        ("catalog.nodes", catalog.nodes),
        ("catalog.edges", catalog.edges),
    )
    for path, group in groups:
        live.append({item.id for item in group})
        if len(live[-1]) != len(group):
            raise corrupt(path, "have two types with one id")
        _hints(path, group)
    for index, item in enumerate(catalog.retired):
        path = f"catalog.retired[{index}]"
        if not _ID.fullmatch(item):
            raise corrupt(path, "is not an id")
        # Nodes and edges have ids of their own, so one of the two may have what the other lost.
        if all(item in ids for ids in live):
            raise corrupt(path, "is the id of a type that is there")


def _hints(path: str, items: Sequence[NodeType | EdgeType | Property]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        old = item.renamed_from
        if old is None:
            continue
        form = rules.PROPERTY_NAME if isinstance(item, Property) else rules.TYPE_NAME
        if not form.fullmatch(old) or old == item.name or old in seen:
            raise corrupt(f"{path}[{index}].renamed_from", "is not the old name of anything")
        seen.add(old)


# -- enums, interfaces and types -------------------------------------------------------------------


def _enum(item: EnumType, path: str, *, taken: bool) -> None:
    if item.name in rules.BUILT_IN or taken:
        raise corrupt(f"{path}.name", "is the name of another type")
    _enum_values(item.values, f"{path}.values")


def _enum_values(values: tuple[str, ...], path: str) -> None:
    if not values:
        raise corrupt(path, "are missing")
    if not all(rules.ENUM_VALUE.fullmatch(value) for value in values):
        raise corrupt(path, "are not all values of an enum")
    if not _ascending(values):
        raise corrupt(path, "are not in order, each once")


def _interface(item: InterfaceType, path: str, enums: _Enums) -> None:
    _properties(item.properties, path, enums, edge=False)
    if [prop.id for prop in item.properties] != list(range(1, len(item.properties) + 1)):
        raise corrupt(f"{path}.properties", "have ids that cannot be")


def _node(
    item: NodeType, path: str, interfaces: Mapping[str, InterfaceType], enums: _Enums
) -> None:
    _entity(item, path, enums)
    known = item.property_by_name
    for index, prop in enumerate(item.properties):
        source = known.get(prop.embed.source) if prop.embed is not None else None
        if prop.embed is not None and (source is None or not rules.is_text(source.type)):
            raise corrupt(f"{path}.properties[{index}].embed.source", "is not a text property")
    if not _ascending(item.implements):
        raise corrupt(f"{path}.implements", "are not in order, each once")
    for index, name in enumerate(item.implements):
        place = f"{path}.implements[{index}]"
        if name not in interfaces:
            raise corrupt(place, f"is the unknown interface {name!r}")
        for offered in interfaces[name].properties:
            own = known.get(offered.name)
            if own is None or own.type != offered.type:
                raise corrupt(place, f"is not kept: {offered.name!r} is missing or of another type")
    _ranges(item, path)
    _checks(item, path)


def _edge(item: EdgeType, path: str, catalog: Catalog, enums: _Enums) -> None:
    if item.key and item.key[: len(ENDS)] != ENDS:
        raise corrupt(f"{path}.key", "leaves out an end")
    _entity(item, path, enums)
    for end, name in (("source", item.source), ("target", item.target)):
        if name not in catalog.node_by_name:
            raise corrupt(f"{path}.{end}", f"connects the unknown type {name!r}")
    _cardinality(item.cardinality, f"{path}.cardinality")


def _cardinality(card: Cardinality, path: str) -> None:
    high = rules.CARD_MAX if card.high is None else card.high
    if not 0 <= card.low <= high <= rules.CARD_MAX:
        raise corrupt(path, "has bounds that cannot be")


def _entity(item: NodeType | EdgeType, path: str, enums: _Enums) -> None:
    if not _ID.fullmatch(item.id):
        raise corrupt(f"{path}.id", "is not an id")
    for field, text in (("description", item.description), ("instruction", item.instruction)):
        if text is not None and not text.strip():
            raise corrupt(f"{path}.{field}", "is empty")
    _annotations(item.annotations, path)
    _properties(item.properties, path, enums, edge=item.kind == "edge")
    ids = {prop.id for prop in item.properties}
    if len(ids) != len(item.properties) or any(
        not 0 < number < item.next_property_id for number in ids
    ):
        raise corrupt(f"{path}.properties", "have ids that cannot be")
    if item.next_property_id < 1:
        raise corrupt(f"{path}.next_property_id", "is too small")
    _birth_names(item, path)
    _columns(item, path)


def _birth_names(item: NodeType | EdgeType, path: str) -> None:
    known = [prop.identity for prop in item.properties]
    for index, prop in enumerate(item.properties):
        name = prop.birth_name
        if name is not None and (name == prop.name or not DECLARED_NAME.fullmatch(name)):
            raise corrupt(f"{path}.properties[{index}].birth_name", "is not a name of before")
    if not all(DECLARED_NAME.fullmatch(name) for name in item.retired):
        raise corrupt(f"{path}.retired", "are not names of before")
    if not _ascending(item.retired):
        raise corrupt(f"{path}.retired", "are not in order, each once")
    if len({*known, *item.retired}) != len(known) + len(item.retired):
        raise corrupt(f"{path}.properties", "were declared with one name")


# -- properties ------------------------------------------------------------------------------------


def _properties(items: tuple[Property, ...], path: str, enums: _Enums, *, edge: bool) -> None:
    path = f"{path}.properties"
    _names(path, [item.name for item in items], rules.PROPERTY_NAME)
    for index, item in enumerate(items):
        _property(item, f"{path}[{index}]", enums, edge=edge)
    _hints(path, items)


def _property(item: Property, path: str, enums: _Enums, *, edge: bool) -> None:
    if (
        item.name == rules.ID_NAME
        or item.name in rules.STORAGE_NAMES
        or (edge and item.name in rules.END_NAMES)
    ):
        raise corrupt(f"{path}.name", "is taken")
    of_type = item.type
    _type(of_type, f"{path}.type")
    if item.enum_name is not None and (
        item.enum_name not in enums or enums[item.enum_name] != of_type.enum
    ):
        raise corrupt(f"{path}.enum_name", "is not the enum of these values")
    vector = of_type.base is Base.VECTOR
    if (item.metric is not None) != vector:
        raise corrupt(f"{path}.metric", "belongs to a Vector, and every Vector has one")
    if item.embed is not None:
        if not vector or edge:
            raise corrupt(f"{path}.embed", "is not on a Vector of a node")
        if not item.embed.source or (item.embed.model is not None and not item.embed.model.strip()):
            raise corrupt(f"{path}.embed", "has an empty name")
    required = of_type.required()
    # What older rows got may be a value that an enum has given up since.
    filling = replace(required, enum=())
    for field, value, kind in (("default", item.default, required), ("fill", item.fill, filling)):
        if value is not None and (
            vector or of_type.base is Base.BLOB or normal(value, kind) != value
        ):
            raise corrupt(f"{path}.{field}", f"is not a value of {kind}")
    if item.description is not None and not item.description.strip():
        raise corrupt(f"{path}.description", "is empty")
    _annotations(item.annotations, path)


def _type(of_type: ValueType, path: str) -> None:
    if of_type.base is Base.VECTOR:
        if not rules.is_dimension(of_type.dim):
            raise corrupt(f"{path}.dim", "is not a dimension")
    elif of_type.dim:
        raise corrupt(f"{path}.dim", "belongs to a Vector")
    if of_type.enum:
        if of_type.base is not Base.STRING:
            raise corrupt(f"{path}.enum", "belongs to a String")
        _enum_values(of_type.enum, f"{path}.enum")
    if of_type.is_list and not rules.is_element(ValueType(of_type.base, enum=of_type.enum)):
        raise corrupt(f"{path}.list", f"cannot hold {of_type.base.value} here")


def _annotations(items: tuple[CustomAnnotation, ...], path: str) -> None:
    path = f"{path}.annotations"
    for index, item in enumerate(items):
        words = (word for word in item.args if isinstance(word, str))
        if (
            not rules.PROPERTY_NAME.fullmatch(item.name)
            or not all(_WORD.fullmatch(word) for word in words)
            or not all(rules.PROPERTY_NAME.fullmatch(key) for key, _ in item.kwargs)
        ):
            raise corrupt(f"{path}[{index}]", "has something that is not a name")
    if any(left.rank > right.rank for left, right in pairwise(items)):
        raise corrupt(path, "are not in order")


# -- constraints -----------------------------------------------------------------------------------


def _columns(item: NodeType | EdgeType, path: str) -> None:
    ids = {prop.name: prop.id for prop in item.properties}
    ends = ENDS if item.kind == "edge" else ()
    lists: list[tuple[str, tuple[str, ...]]] = []
    for field, group in (("uniques", item.uniques), ("indexes", item.indexes)):
        lists += [(f"{path}.{field}[{index}]", columns) for index, columns in enumerate(group)]
    if item.key:
        lists.append((f"{path}.key", item.key))
    for place, columns in lists:
        if not columns:
            raise corrupt(place, "is empty")
        if not all(name in ids or name in ends for name in columns):
            raise corrupt(place, "has a constraint on an unknown property")
        if len(set(columns)) != len(columns) or order_columns(columns, ids) != columns:
            raise corrupt(place, "are not in order, each once")
    for field, group in (("uniques", item.uniques), ("indexes", item.indexes)):
        if not _ascending(group):
            raise corrupt(f"{path}.{field}", "are not in order, each once")
    if item.key and item.key not in item.indexes:
        raise corrupt(f"{path}.indexes", "leave out the key")
    types = {prop.name: prop.type for prop in item.properties}
    for name in _stored([item.key], types):
        if types[name].nullable or not rules.is_key_part(types[name]):
            raise corrupt(f"{path}.key", f"cannot have {name!r}")
    for name in _stored(item.uniques, types):
        if not rules.is_unique_part(types[name], forgive_blob=True):
            raise corrupt(f"{path}.uniques", f"cannot have {name!r}")
    for name in _stored(item.indexes, types):
        if not rules.is_indexable(types[name]):
            raise corrupt(f"{path}.indexes", f"cannot have {name!r}")


def _stored(lists: Iterable[tuple[str, ...]], types: Mapping[str, ValueType]) -> list[str]:
    """The columns that are properties, so without the ends of an edge."""
    return [name for columns in lists for name in columns if name in types]


def _ranges(item: NodeType, path: str) -> None:
    known = item.property_by_name
    for index, rule in enumerate(item.ranges):
        place = f"{path}.ranges[{index}]"
        prop = known.get(rule.property)
        if prop is None:
            raise corrupt(place, f"has a rule for the unknown property {rule.property!r}")
        if not rules.is_number(prop.type):
            raise corrupt(place, f"is on {rule.property!r}, which is not a number")
        for given, up in ((rule.low, True), (rule.high, False)):
            proper = rules.bound(given, prop.type.base, up=up)
            if proper != given or type(proper) is not type(given):
                raise corrupt(place, "has a bound that its property cannot have")
        if (rule.low is None and rule.high is None) or rules.is_empty(rule.low, rule.high):
            raise corrupt(place, "has bounds that cannot be")
        if rules.excludes(rule, prop.default):
            raise corrupt(place, "rules the default out")
    if not _ascending([rule.property for rule in item.ranges]):
        raise corrupt(f"{path}.ranges", "are not in order, each once")


def _checks(item: NodeType, path: str) -> None:
    known = item.property_by_name
    for index, rule in enumerate(item.checks):
        place = f"{path}.checks[{index}]"
        prop = known.get(rule.property)
        if prop is None:
            raise corrupt(place, f"has a rule for the unknown property {rule.property!r}")
        if not rules.is_text(prop.type):
            raise corrupt(place, f"is on {rule.property!r}, which is not a String")
        fault = pattern_fault(rule.pattern)
        if fault is not None:
            raise corrupt(f"{place}.pattern", f"cannot be used: {fault}")
    if not _ascending([(rule.property, rule.pattern) for rule in item.checks]):
        raise corrupt(f"{path}.checks", "are not in order, each once")
