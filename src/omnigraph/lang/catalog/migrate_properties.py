"""Differences of the properties of one type between two catalogs, matched by id."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.catalog.model import EntityType, Property
from omnigraph.lang.catalog.steps import (
    AddProperty,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropMode,
    DropProperty,
    ExtendEnum,
    NarrowEnum,
    RenameProperty,
    Step,
    StepSubject,
    Tier,
    Touch,
    UnsupportedChange,
    UpdatePropertyMetadata,
)
from omnigraph.lang.values import Base, ValueType

# Every value of the left type is a value of the right ones.
_WIDENINGS: dict[Base, frozenset[Base]] = {
    Base.I32: frozenset({Base.I64}),
    Base.U32: frozenset({Base.U64, Base.I64}),
    Base.F32: frozenset({Base.F64}),
}


def diff_properties(old: EntityType, new: EntityType, mode: DropMode) -> Iterator[Step]:
    """The steps from the properties of `old` to those of `new`."""
    before = {item.id: item for item in old.properties}
    after = {item.id: item for item in new.properties}
    for item in new.properties:
        entity = _entity(new, item)
        known = before.get(item.id)
        if known is None:
            yield _added(entity, item)
            continue
        if known.name != item.name:
            yield RenameProperty(entity=entity, old=known.name)
        yield from _diff_type(entity, known, item, in_key=item.name in new.key)
        yield from _diff_notes(entity, known, item)
        if _embed_source(old, known) != _embed_source(new, item):
            reason = "the source and the model of an embedding cannot be changed"
            yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)
    for item in old.properties:
        if item.id not in after:
            hard = mode is DropMode.HARD
            yield DropProperty(
                entity=_entity(new, item),
                mode=mode,
                code="OG-DS-105" if item.type.base is Base.VECTOR else "OG-DS-104",
                tier=Tier.DESTRUCTIVE if hard else Tier.SAFE,
                touches_data=Touch.REWRITE if hard else Touch.NONE,
            )


def _entity(owner: EntityType, item: Property) -> StepSubject:
    return StepSubject(
        kind=owner.kind, name=owner.name, id=owner.id, property=item.name, property_id=item.id
    )


def _added(entity: StepSubject, item: Property) -> Step:
    if item.type.nullable:
        return AddProperty(entity=entity, type=item.type)
    if item.default is not None:
        return AddProperty(
            entity=entity, type=item.type, fill=item.default, touches_data=Touch.REWRITE
        )
    reason = "existing entities have no value for a new required property"
    if item.type.base not in (Base.BLOB, Base.VECTOR):
        reason += "; give it a @default or make it nullable"
    return UnsupportedChange(entity=entity, code="OG-MF-103", reason=reason)


def _diff_type(
    entity: StepSubject, old: Property, new: Property, *, in_key: bool
) -> Iterator[Step]:
    before, after = old.type.required(), new.type.required()
    if before != after and in_key and before.base is Base.F32:
        # Ids spell a key's number as short as its width allows; at another width they differ.
        reason = f"the type {before} of a key property cannot be changed"
        yield UnsupportedChange(entity=entity, code="OG-MF-107", reason=reason)
    elif before != after:
        yield from _changed_type(entity, before, after)
    if old.type.nullable != new.type.nullable:
        if new.type.nullable:
            yield ChangeNullability(entity=entity, nullable=True)
        else:
            yield ChangeNullability(
                entity=entity,
                nullable=False,
                code="OG-MF-104",
                tier=Tier.VALIDATED,
                touches_data=Touch.SCAN,
            )
    if old.default != new.default:
        yield ChangeDefault(entity=entity, old=old.default, new=new.default)


def _changed_type(entity: StepSubject, before: ValueType, after: ValueType) -> Iterator[Step]:
    if before.enum and after.enum:
        yield from _changed_values(entity, before, after)
    elif before.is_list == after.is_list and after.base in _WIDENINGS.get(before.base, ()):
        yield ChangeType(entity=entity, old=before, new=after, touches_data=Touch.REWRITE)
    else:
        reason = f"the type {before} cannot become {after}"
        yield UnsupportedChange(entity=entity, code="OG-MF-106", reason=reason)


def _changed_values(entity: StepSubject, before: ValueType, after: ValueType) -> Iterator[Step]:
    if added := tuple(value for value in after.enum if value not in before.enum):
        yield ExtendEnum(entity=entity, added=added)
    if removed := tuple(value for value in before.enum if value not in after.enum):
        yield NarrowEnum(
            entity=entity,
            removed=removed,
            code="OG-MF-106",
            tier=Tier.VALIDATED,
            touches_data=Touch.SCAN,
        )


def _diff_notes(entity: StepSubject, old: Property, new: Property) -> Iterator[Step]:
    changes: list[str] = []
    if old.description != new.description:
        changes.append("description")
    if old.enum_name != new.enum_name:
        changes.append("enum")
    # A vector of another length is refused already; its metric is not news then.
    if old.metric is not None and new.metric is not None and old.metric != new.metric:
        changes.append("metric")
    if changes:
        yield UpdatePropertyMetadata(entity=entity, changes=tuple(changes))
    if old.annotations != new.annotations:
        reason = "custom annotations cannot be changed"
        yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)


def _embed_source(owner: EntityType, item: Property) -> tuple[int, str | None] | None:
    """The source of a computed vector, in terms that survive a rename."""
    if item.embed is None:
        return None
    return owner.property_by_name[item.embed.source].id, item.embed.model
