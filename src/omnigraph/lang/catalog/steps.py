"""The steps of a migration: plain values that say what changes and what that costs.

A step never says how to change stored data; it names the entity by its new name and its id, and
classifies the change. What is dropped has no new name and goes by its old one, even when another
entity takes that name in the same plan: ids are never ambiguous, names can be. All `rename_*`
steps of a plan are one renaming that happens at once; they are listed in an order in which each
new name is free, so doing them one by one comes to the same. Kinds, codes and field names are API.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final
from typing import Literal as OneOf

from omnigraph.errors import JsonValue
from omnigraph.lang.literal import Literal
from omnigraph.lang.values import ValueType

TypeKind = OneOf["node", "edge", "interface", "enum"]

MIGRATION_CODES: Final = MappingProxyType(
    {
        "OG-DS-101": "reserved: a whole graph is dropped",
        "OG-DS-102": "a node type is dropped",
        "OG-DS-103": "an edge type is dropped",
        "OG-DS-104": "a property is dropped",
        "OG-DS-105": "a vector property is dropped",
        "OG-MF-103": "a required property without a default is added to an existing type",
        "OG-MF-104": "a nullable property becomes required",
        "OG-MF-105": "a constraint is added or tightened",
        "OG-MF-106": "a type changes into one that does not hold every old value",
        "OG-MF-107": "the key of a type changes",
        "OG-MF-108": "an edge type connects other node types",
        "OG-MF-109": "an interface, an embedding or a custom annotation changes",
        "OG-MF-110": "rename hints form a cycle",
    }
)
# Codes of changes that no plan consists of: two schemas belong to one graph, which stays.
RESERVED_CODES: Final = frozenset({"OG-DS-101"})


class Tier(StrEnum):
    """The safety of a migration step on a populated graph."""

    SAFE = "safe"  # every stored row stays valid
    VALIDATED = "validated"  # goes through only if the stored rows already comply
    DESTRUCTIVE = "destructive"  # stored data is gone afterwards, history included
    REFUSED = "refused"  # cannot be applied at all


class Touch(StrEnum):
    """The work that a step has to do on stored data."""

    NONE = "none"
    SCAN = "scan"
    REWRITE = "rewrite"


class DropMode(StrEnum):
    """A soft drop leaves earlier versions readable, a hard one removes them."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSubject:
    """The subject of a step, by its new name; types without storage have no id."""

    kind: TypeKind
    name: str
    id: str | None = None
    property: str | None = None
    property_id: int | None = None

    def __str__(self) -> str:
        """`node:Person` or `node:Person.age`."""
        text = f"{self.kind}:{self.name}"
        return f"{text}.{self.property}" if self.property is not None else text


@dataclass(frozen=True, kw_only=True)
class Step:
    """The common part of all migration steps."""

    kind: ClassVar[str]

    entity: StepSubject
    code: str | None = None
    tier: Tier = Tier.SAFE
    touches_data: Touch = Touch.NONE

    def details(self) -> dict[str, JsonValue]:
        """The fields that only this kind of step has."""
        return {}

    def to_json(self) -> dict[str, JsonValue]:
        """The step as plain values."""
        entity = self.entity
        fields: dict[str, JsonValue] = {"kind": self.kind, "type_kind": entity.kind}
        if entity.property is None:
            fields["name"] = entity.name
        else:
            fields["type_name"] = entity.name
            fields["property_name"] = entity.property
            fields["property_id"] = entity.property_id
        fields["type_id"] = entity.id
        fields.update(self.details())
        fields["code"] = self.code
        fields["tier"] = str(self.tier)
        fields["touches_data"] = str(self.touches_data)
        return fields


@dataclass(frozen=True, kw_only=True)
class AddType(Step):
    """A new type with everything it declares."""

    kind: ClassVar[str] = "add_type"


@dataclass(frozen=True, kw_only=True)
class RenameType(Step):
    """A type gets another name and keeps its id and its data."""

    kind: ClassVar[str] = "rename_type"

    old: str

    def details(self) -> dict[str, JsonValue]:
        """The old and the new name."""
        return {"from": self.old, "to": self.entity.name}


@dataclass(frozen=True, kw_only=True)
class AddProperty(Step):
    """A new property; `fill` is the value that existing entities get, None leaves null."""

    kind: ClassVar[str] = "add_property"

    type: ValueType
    fill: Literal | None = None

    def details(self) -> dict[str, JsonValue]:
        """Its type, and the filling as source text."""
        return {"property_type": str(self.type), "fill": _text(self.fill)}


@dataclass(frozen=True, kw_only=True)
class RenameProperty(Step):
    """A property gets another name and keeps its id and its data."""

    kind: ClassVar[str] = "rename_property"

    old: str

    def details(self) -> dict[str, JsonValue]:
        """The old and the new name."""
        return {"from": self.old, "to": self.entity.property}


@dataclass(frozen=True, kw_only=True)
class AddConstraint(Step):
    """A constraint or index, as it is written in a body."""

    kind: ClassVar[str] = "add_constraint"

    constraint: str

    def details(self) -> dict[str, JsonValue]:
        """Its text."""
        return {"constraint": self.constraint}


@dataclass(frozen=True, kw_only=True)
class RemoveConstraint(Step):
    """A constraint or index that is no longer declared, spelled with the new names."""

    kind: ClassVar[str] = "remove_constraint"

    constraint: str
    columns: tuple[int, ...] = ()  # the properties it was about, by id; ends of an edge below 0

    def details(self) -> dict[str, JsonValue]:
        """Its text."""
        return {"constraint": self.constraint}


@dataclass(frozen=True, kw_only=True)
class ExtendEnum(Step):
    """An enum property accepts more values."""

    kind: ClassVar[str] = "extend_enum"

    added: tuple[str, ...]

    def details(self) -> dict[str, JsonValue]:
        """The new values."""
        return {"added_values": list(self.added)}


@dataclass(frozen=True, kw_only=True)
class NarrowEnum(Step):
    """An enum property accepts fewer values; no stored row may have one of the others."""

    kind: ClassVar[str] = "narrow_enum"

    removed: tuple[str, ...]

    def details(self) -> dict[str, JsonValue]:
        """The values that are gone."""
        return {"removed_values": list(self.removed)}


@dataclass(frozen=True, kw_only=True)
class ChangeType(Step):
    """A property is stored in a wider type."""

    kind: ClassVar[str] = "change_type"

    old: ValueType
    new: ValueType

    def details(self) -> dict[str, JsonValue]:
        """Both types."""
        return {"from": str(self.old), "to": str(self.new)}


@dataclass(frozen=True, kw_only=True)
class ChangeNullability(Step):
    """A property may be null from now on, or may not."""

    kind: ClassVar[str] = "change_nullability"

    nullable: bool

    def details(self) -> dict[str, JsonValue]:
        """The state after the step, for display."""
        return {"nullable": self.nullable}


@dataclass(frozen=True, kw_only=True)
class ChangeDefault(Step):
    """Later writes get another default; stored values stay."""

    kind: ClassVar[str] = "change_default"

    old: Literal | None
    new: Literal | None

    def details(self) -> dict[str, JsonValue]:
        """Both defaults as source text."""
        return {"from": _text(self.old), "to": _text(self.new)}


@dataclass(frozen=True, kw_only=True)
class ChangeCardinality(Step):
    """An edge type allows another number of edges per source."""

    kind: ClassVar[str] = "change_cardinality"

    old: str
    new: str

    def details(self) -> dict[str, JsonValue]:
        """Both as written in a schema."""
        return {"from": self.old, "to": self.new}


@dataclass(frozen=True, kw_only=True)
class UpdateTypeMetadata(Step):
    """Something about a type changes that no stored row depends on."""

    kind: ClassVar[str] = "update_type_metadata"

    changes: tuple[str, ...]

    def details(self) -> dict[str, JsonValue]:
        """The change, for display."""
        return {"changes": list(self.changes)}


@dataclass(frozen=True, kw_only=True)
class UpdatePropertyMetadata(Step):
    """Something about a property changes that no stored row depends on."""

    kind: ClassVar[str] = "update_property_metadata"

    changes: tuple[str, ...]

    def details(self) -> dict[str, JsonValue]:
        """The change, for display."""
        return {"changes": list(self.changes)}


@dataclass(frozen=True, kw_only=True)
class DropType(Step):
    """A type that is no longer declared."""

    kind: ClassVar[str] = "drop_type"

    mode: DropMode

    def details(self) -> dict[str, JsonValue]:
        """The extent of the removal, for display."""
        return {"mode": str(self.mode)}


@dataclass(frozen=True, kw_only=True)
class DropProperty(Step):
    """A property that is no longer declared."""

    kind: ClassVar[str] = "drop_property"

    mode: DropMode

    def details(self) -> dict[str, JsonValue]:
        """The extent of the removal, for display."""
        return {"mode": str(self.mode)}


@dataclass(frozen=True, kw_only=True)
class UnsupportedChange(Step):
    """A difference that no migration can bridge; the plan as a whole cannot be applied."""

    kind: ClassVar[str] = "unsupported_change"

    reason: str
    tier: Tier = Tier.REFUSED

    def details(self) -> dict[str, JsonValue]:
        """The entity as one word, and why."""
        return {"entity": str(self.entity), "reason": self.reason}


def _text(literal: Literal | None) -> str | None:
    return None if literal is None else str(literal)
