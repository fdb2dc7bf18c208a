"""Merging catalogs: what two branches declared since their merge base, as one catalog.

Pure. Types are matched by id and properties by identity, so renames of one side meet changes of the
other. What one side changed is taken; what both sides changed alike, too. Only what both changed in
different ways, or what does not fit together, is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from omnigraph.errors import Corrupt
from omnigraph.lang.catalog.identity import ENDS, order_columns
from omnigraph.lang.catalog.model import (
    Catalog,
    Check,
    EdgeType,
    Embed,
    EntityType,
    EnumType,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.lang.catalog.verify import verify

_T = TypeVar("_T")
_Type = TypeVar("_Type", bound=EntityType)
_K = TypeVar("_K", bound=Hashable)
_Attributes = dict[str, Any]
_Enums = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaConflict:
    """A declaration that two branches changed in ways that do not go together."""

    entity: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCatalog:
    """The catalog that two branches make together; with conflicts it is not to be used."""

    catalog: Catalog
    conflicts: tuple[SchemaConflict, ...] = ()


def merge_catalogs(
    base: Catalog, ours: Catalog, theirs: Catalog, names: tuple[str, str]
) -> MergedCatalog:
    """Merge what two branches declared.

    Args:
        base: The catalog of the merge base.
        ours: The catalog of the branch that is merged into; its numbers are kept.
        theirs: The catalog of the branch that is merged.
        names: What to call the two branches in conflicts.
    """
    if theirs in (base, ours):
        return MergedCatalog(catalog=ours)
    if ours == base:
        return MergedCatalog(catalog=_with_memory(theirs, (base, ours, theirs)))
    return _Merge(base, ours, theirs, names).merged()


def _with_memory(catalog: Catalog, sides: Iterable[Catalog]) -> Catalog:
    """The catalog with what any side ever declared and it does not have, as retired."""
    known = tuple(sides)
    retired = {name for side in known for name in side.retired}
    retired -= _revived(catalog.nodes, [(side.nodes, side.retired) for side in known])
    retired -= _revived(catalog.edges, [(side.edges, side.retired) for side in known])
    for there, before in (
        (catalog.nodes, [item for side in known for item in side.nodes]),
        (catalog.edges, [item for side in known for item in side.edges]),
    ):
        retired |= {item.id for item in before} - {item.id for item in there}
    return replace(
        catalog,
        nodes=tuple(_remembering(item, [side.nodes for side in known]) for item in catalog.nodes),
        edges=tuple(_remembering(item, [side.edges for side in known]) for item in catalog.edges),
        retired=tuple(sorted(retired)),
    )


def _revived(
    types: Iterable[EntityType],
    sides: Iterable[tuple[Iterable[EntityType], Iterable[str]]],
) -> set[str]:
    """The types that a side dropped and that are there all the same."""
    found: set[str] = set()
    for there, retired in sides:
        known = {item.id for item in there}
        found |= {item.id for item in types if item.id not in known} & set(retired)
    return found


def _remembering(item: _Type, groups: Iterable[Iterable[_Type]]) -> _Type:
    """A type with the identities that it had on any side and does not have, as retired."""
    same: list[_Type] = [each for group in groups for each in group if each.id == item.id]
    known = {name for each in same for name in (*each.property_by_identity, *each.retired)}
    return replace(
        item,
        retired=tuple(sorted(known - item.property_by_identity.keys())),
        next_property_id=max(item.next_property_id, *(each.next_property_id for each in same)),
    )


@dataclass(slots=True)
class _Merge:
    """A merge in progress."""

    base: Catalog
    ours: Catalog
    theirs: Catalog
    names: tuple[str, str]
    conflicts: list[SchemaConflict] = field(default_factory=list)

    def merged(self) -> MergedCatalog:
        """Merge everything, and check that it fits together."""
        sides = (self.base, self.ours, self.theirs)
        enums = self._enums()
        nodes = self._types([each.nodes for each in sides], enums)
        edges = self._types([each.edges for each in sides], enums)
        called = {item.id: item.name for item in nodes}
        for at, edge in enumerate(edges):
            edges[at] = self._connected(edge, called)
        catalog = Catalog(
            nodes=tuple(sorted(nodes, key=lambda item: item.name)),
            edges=tuple(sorted(edges, key=lambda item: item.name)),
            interfaces=self._interfaces(enums),
            enums=tuple(EnumType(name=name, values=enums[name]) for name in sorted(enums)),
        )
        catalog = _with_memory(catalog, sides)
        if not self.conflicts:
            self._verify(catalog)
        return MergedCatalog(catalog=catalog, conflicts=tuple(self.conflicts))

    def _verify(self, catalog: Catalog) -> None:
        try:
            verify(catalog)
        except Corrupt as error:
            text = str(error).removeprefix("stored schema: ")
            self._conflict("schema", f"the two schemas do not fit together: {text}")

    def _conflict(self, entity: str, reason: str) -> None:
        self.conflicts.append(SchemaConflict(entity=entity, reason=reason))

    def _pick(self, entity: str, what: str, base: _T, ours: _T, theirs: _T) -> _T:
        """The value of the side that changed it."""
        if theirs in (base, ours):
            return ours
        if ours != base:
            mine, other = self.names
            text = f"'{mine}' and '{other}' changed {what} in different ways"
            self._conflict(entity, f"{text}: {_shown(ours)} and {_shown(theirs)}")
        return theirs

    def _kept(
        self,
        label: Callable[[_K], str],
        sides: Iterable[Mapping[_K, _T]],
        both: Callable[[_K, _T | None, _T, _T], _T],
    ) -> dict[_K, _T]:
        """Entries of three sides: what was added and changed; what one side dropped is gone."""
        base, ours, theirs = sides
        found: dict[_K, _T] = {}
        for key in dict.fromkeys([*ours, *theirs]):
            if key in ours and key in theirs:
                found[key] = both(key, base.get(key), ours[key], theirs[key])
                continue
            mine, their = self.names
            here, name, other = (ours, mine, their) if key in ours else (theirs, their, mine)
            if key not in base:
                found[key] = here[key]
            elif here[key] != base[key]:
                self._conflict(label(key), f"'{name}' changed it and '{other}' dropped it")
        return found

    # -- enums and interfaces --------------------------------------------------------------------

    def _enums(self) -> dict[str, tuple[str, ...]]:
        sides = [{item.name: item.values for item in each.enums} for each in self._sides()]
        return self._kept(
            lambda name: f"enum {name}",
            sides,
            lambda _, base, ours, theirs: merged_values(base or (), ours, theirs),
        )

    def _interfaces(self, enums: _Enums) -> tuple[InterfaceType, ...]:
        sides = [{item.name: item for item in each.interfaces} for each in self._sides()]
        found = self._kept(
            lambda name: f"interface {name}",
            sides,
            lambda name, base, ours, theirs: (
                self._pick(f"interface {name}", "it", base, ours, theirs) or ours
            ),
        )
        return tuple(
            replace(found[name], properties=_with_values(found[name].properties, enums))
            for name in sorted(found)
        )

    def _sides(self) -> tuple[Catalog, Catalog, Catalog]:
        return self.base, self.ours, self.theirs

    # -- types -----------------------------------------------------------------------------------

    def _types(self, groups: Iterable[Iterable[Any]], enums: _Enums) -> list[Any]:
        sides = []
        for catalog, group in zip(self._sides(), groups, strict=True):
            ids = {item.name: item.id for item in catalog.nodes}
            sides.append({item.id: _TypeVersion(item, ids) for item in group})
        names = {key: item.type for each in sides for key, item in each.items()}
        found = self._kept(
            lambda key: f"{names[key].kind} {names[key].name}",
            sides,
            lambda _, base, ours, theirs: self._type(base, ours, theirs),
        )
        types = [
            replace(item.type, properties=_with_values(item.type.properties, enums))
            for item in found.values()
        ]
        self._unique_names([f"{item.kind} {item.name}" for item in types])
        return types

    def _unique_names(self, labels: list[str]) -> None:
        for label in sorted({label for label in labels if labels.count(label) > 1}):
            mine, other = self.names
            text = f"'{mine}' and '{other}' each gave this name to something else"
            self._conflict(label, text)

    def _type(
        self, base: _TypeVersion | None, ours: _TypeVersion, theirs: _TypeVersion
    ) -> _TypeVersion:
        label = f"{ours.type.kind} {ours.type.name}"
        before = None if base is None else base.attributes
        picked: _Attributes = {
            name: self._pick(
                label,
                _WORDS.get(name, f"its {name}"),
                None if before is None else before[name],
                value,
                theirs.attributes[name],
            )
            for name, value in ours.attributes.items()
        }
        rules: dict[str, dict[Any, Any]] = {
            name: self._kept(
                lambda _, label=label: label,  # type: ignore[misc]
                ({} if base is None else base.rules[name], ours.rules[name], theirs.rules[name]),
                lambda key, was, mine, other, what=name: self._pick(  # type: ignore[misc]
                    label, f"its {what}", was, mine, other
                ),
            )
            for name in ours.rules
        }
        properties = self._properties(label, base, ours, theirs)
        made = _composed(ours.type, picked, rules, properties, self._lost)
        return _TypeVersion(made, ours.node_ids | theirs.node_ids)

    def _lost(self, label: str, rule: str) -> None:
        mine, other = self.names
        text = f"one of '{mine}' and '{other}' dropped a property that {rule} of the other needs"
        self._conflict(label, text)

    def _properties(
        self,
        label: str,
        base: _TypeVersion | None,
        ours: _TypeVersion,
        theirs: _TypeVersion,
    ) -> list[Property]:
        sides = [{} if each is None else each.properties for each in (base, ours, theirs)]
        found = self._kept(
            lambda key: f"{label}.{key}",
            sides,
            lambda key, was, mine, other: self._property(f"{label}.{key}", was, mine, other),
        )
        known = ours.type.property_by_identity
        number = ours.type.next_property_id
        properties = []
        for identity, attributes in found.items():
            if identity in known:
                at = known[identity].id
            else:
                at, number = number, number + 1
            birth_name = None if identity == attributes["name"] else identity
            embed = self._embed(label, attributes["embed"], found)
            values = attributes | {"embed": embed}
            properties.append(Property(id=at, birth_name=birth_name, **values))
        self._unique_names([f"{label}.{item.name}" for item in properties])
        return sorted(properties, key=lambda item: item.name)

    def _embed(
        self,
        label: str,
        embed: tuple[str, str | None] | None,
        properties: Mapping[str, _Attributes],
    ) -> Embed | None:
        """The source of a computed vector, as it is called now."""
        if embed is None:
            return None
        source, model = embed
        if source not in properties:
            self._lost(label, "an embedding")
            return None
        return Embed(source=properties[source]["name"], model=model)

    def _property(
        self, label: str, base: _Attributes | None, ours: _Attributes, theirs: _Attributes
    ) -> _Attributes:
        found = {}
        for name, mine in ours.items():
            was = None if base is None else base[name]
            if name == "type":
                found[name] = self._value_type(label, was, mine, theirs[name])
            else:
                found[name] = self._pick(label, f"its {name}", was, mine, theirs[name])
        return found

    def _value_type(self, label: str, base: Any, ours: Any, theirs: Any) -> Any:
        """The type of values; whether they may be missing, and enum values, change on their own."""

        def part(of: Any) -> Any:
            return None if of is None else replace(of, nullable=False, enum=())

        found = self._pick(label, "its type", part(base), part(ours), part(theirs))
        was = None if base is None else base.nullable
        nullable = self._pick(
            label, "whether it may be missing", was, ours.nullable, theirs.nullable
        )
        known = () if base is None else base.enum
        if bool(ours.enum) != bool(theirs.enum):
            enum = self._pick(label, "its values", known, ours.enum, theirs.enum)
        else:
            enum = merged_values(known, ours.enum, theirs.enum)
        return replace(found, nullable=nullable, enum=enum)

    def _connected(self, edge: EdgeType, names: Mapping[str, str]) -> EdgeType:
        """An edge between the node types as they are called now."""
        ends = []
        for end in (edge.source, edge.target):
            node = next(
                each.node_by_name[end]
                for each in (self.ours, self.theirs)
                if end in each.node_by_name
                and any(
                    item.id == edge.id and end in (item.source, item.target) for item in each.edges
                )
            )
            if node.id not in names:
                text = f"it connects {end}, which one of the two branches dropped"
                self._conflict(f"edge {edge.name}", text)
            ends.append(names.get(node.id, end))
        return replace(edge, source=ends[0], target=ends[1])


# The parts of a type in words of conflicts.
_WORDS = {"ends": "the types that it connects"}


class _TypeVersion:
    """A type in terms that renames do not change."""

    def __init__(self, entity: Any, node_ids: dict[str, str]) -> None:
        self.type: Any = entity
        self.node_ids = node_ids
        identities = {item.name: item.identity for item in entity.properties}
        identities.update((name, name) for name in ENDS)
        self.attributes: _Attributes = {
            "name": entity.name,
            "description": entity.description,
            "instruction": entity.instruction,
            "annotations": entity.annotations,
            "key": tuple(identities[name] for name in entity.key),
        }
        self.rules: dict[str, dict[Any, Any]] = {
            "uniques": _columns(entity.uniques, identities),
            "indexes": _columns(entity.indexes, identities),
        }
        if isinstance(entity, NodeType):
            self.attributes["implements"] = entity.implements
            self.rules["ranges"] = {
                identities[item.property]: (item.low, item.high) for item in entity.ranges
            }
            self.rules["checks"] = {
                (identities[item.property], item.pattern): True for item in entity.checks
            }
        if isinstance(entity, EdgeType):
            self.attributes["ends"] = (
                node_ids.get(entity.source, entity.source),
                node_ids.get(entity.target, entity.target),
            )
            self.attributes["cardinality"] = entity.cardinality
        self.properties: dict[str, _Attributes] = {
            item.identity: _declared(item, identities) for item in entity.properties
        }

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _TypeVersion)
            and self.attributes == other.attributes
            and self.rules == other.rules
            and self.properties == other.properties
        )

    __hash__ = None  # type: ignore[assignment]


def _declared(item: Property, identities: Mapping[str, str]) -> _Attributes:
    embed = item.embed
    return {
        "name": item.name,
        "type": item.type,
        "enum_name": item.enum_name,
        "default": item.default,
        "embed": None if embed is None else (identities[embed.source], embed.model),
        "metric": item.metric,
        "description": item.description,
        "annotations": item.annotations,
        "fill": item.fill,
    }


def _columns(
    lists: Iterable[tuple[str, ...]], identities: Mapping[str, str]
) -> dict[frozenset[str], bool]:
    return {frozenset(identities[name] for name in columns): True for columns in lists}


def _composed(
    entity: EntityType,
    picked: _Attributes,
    rules: Mapping[str, Mapping[Any, Any]],
    properties: list[Property],
    lost: Callable[[str, str], None],
) -> EntityType:
    """A type from its merged parts, in the names that properties have now."""
    label = f"{entity.kind} {entity.name}"
    names = {item.identity: item.name for item in properties} | {name: name for name in ENDS}
    ids = {item.name: item.id for item in properties}

    def listed(name: str) -> tuple[tuple[str, ...], ...]:
        found = []
        for columns in rules[name]:
            if all(each in names for each in columns):
                found.append(order_columns(tuple(names[each] for each in columns), ids))
            else:
                lost(label, f"a rule ({name})")
        return tuple(sorted(found))

    made = replace(
        entity,
        name=picked["name"],
        description=picked["description"],
        instruction=picked["instruction"],
        annotations=picked["annotations"],
        key=tuple(names.get(each, each) for each in picked["key"]),
        uniques=listed("uniques"),
        indexes=listed("indexes"),
        properties=tuple(properties),
        next_property_id=max([entity.next_property_id, *(item.id + 1 for item in properties)]),
    )
    if isinstance(made, NodeType):
        for each in (*rules["ranges"], *(identity for identity, _ in rules["checks"])):
            if each not in names:
                lost(label, "a rule")
        made = replace(
            made,
            implements=picked["implements"],
            ranges=tuple(
                Range(property=names.get(each, each), low=low, high=high)
                for each, (low, high) in sorted(
                    rules["ranges"].items(), key=lambda item: names.get(item[0], item[0])
                )
            ),
            checks=tuple(
                Check(property=name, pattern=pattern)
                for name, pattern in sorted(
                    (names.get(each, each), pattern) for each, pattern in rules["checks"]
                )
            ),
        )
    if isinstance(made, EdgeType):
        made = replace(made, cardinality=picked["cardinality"])
    return made


def _with_values(properties: Iterable[Property], enums: _Enums) -> tuple[Property, ...]:
    """Properties with the values that named enums have now."""
    return tuple(
        replace(item, type=replace(item.type, enum=enums[item.enum_name]))
        if item.enum_name is not None and item.enum_name in enums
        else item
        for item in properties
    )


def merged_values(
    base: Iterable[str], ours: Iterable[str], theirs: Iterable[str]
) -> tuple[str, ...]:
    """Sets of three sides: what either added is there, what either removed is not."""
    before, mine, other = set(base), set(ours), set(theirs)
    return tuple(sorted((mine | other) - (before - mine) - (before - other)))


def _shown(value: object) -> str:
    return "nothing" if value is None or value == () else str(value)
