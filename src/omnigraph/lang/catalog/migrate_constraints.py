"""Differences of the constraints of one type between two catalogs; columns are compared by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import EntityType, NodeType, Range
from omnigraph.lang.catalog.steps import (
    AddConstraint,
    RemoveConstraint,
    Step,
    StepSubject,
    Tier,
    Touch,
    UnsupportedChange,
)
from omnigraph.lang.literal import Literal, LiteralKind, format_literal
from omnigraph.lang.tokens import quote

_Columns = tuple[int, ...]


def diff_constraints(old: EntityType, new: EntityType) -> Iterator[Step]:
    """The steps from the constraints of `old` to those of `new`."""
    entity = StepSubject(kind=new.kind, name=new.name, id=new.id)
    old_ids, new_ids = _ids(old), _ids(new)
    # The names to spell constraints with: the new ones, and old ones for what is dropped.
    names = {number: name for name, number in old_ids.items()}
    names.update((number, name) for name, number in new_ids.items())
    old_key, new_key = _columns(old.key, old_ids), _columns(new.key, new_ids)
    if old_key != new_key:
        reason = "the key of an existing type cannot be changed"
        yield UnsupportedChange(entity=entity, code="OG-MF-107", reason=reason)
    # Entities that exist have null in a property that is added as nullable.
    null_everywhere = {
        item.id for item in new.properties if item.type.nullable and item.id not in old_ids.values()
    }
    before = {_columns(item, old_ids) for item in old.uniques}
    after = {_columns(item, new_ids) for item in new.uniques}
    for columns in before - after:
        text = _text("unique", columns, names)
        yield RemoveConstraint(entity=entity, constraint=text, columns=columns)
    for columns in after - before:
        text = _text("unique", columns, names)
        yield _added(entity, text, holds=not null_everywhere.isdisjoint(columns))
    before = {_columns(item, old_ids) for item in old.indexes} - {old_key}
    after = {_columns(item, new_ids) for item in new.indexes} - {new_key}
    for columns in before - after:
        text = _text("index", columns, names)
        yield RemoveConstraint(entity=entity, constraint=text, columns=columns)
    for columns in after - before:
        yield AddConstraint(entity=entity, constraint=_text("index", columns, names))
    if isinstance(old, NodeType) and isinstance(new, NodeType):
        yield from _diff_ranges(entity, old, new, null_everywhere)
        yield from _diff_checks(entity, old, new, null_everywhere)


def _added(entity: StepSubject, text: str, *, holds: bool) -> AddConstraint:
    """A new constraint; when it `holds` for every stored row there is nothing to validate."""
    if holds:
        return AddConstraint(entity=entity, constraint=text)
    return AddConstraint(
        entity=entity,
        constraint=text,
        code="OG-MF-105",
        tier=Tier.VALIDATED,
        touches_data=Touch.SCAN,
    )


def _diff_ranges(
    entity: StepSubject, old: NodeType, new: NodeType, null_everywhere: set[int]
) -> Iterator[Step]:
    old_ids, new_ids = _ids(old), _ids(new)
    before = {old_ids[item.property]: item for item in old.ranges}
    after = {new_ids[item.property]: item for item in new.ranges}
    names = {number: name for name, number in new_ids.items()}
    for number, item in before.items():
        bounds = after.get(number)
        if bounds is None or (bounds.low, bounds.high) != (item.low, item.high):
            text = _range_text(names.get(number, item.property), item)
            yield RemoveConstraint(entity=entity, constraint=text, columns=(number,))
    for number, item in after.items():
        bounds = before.get(number)
        if bounds is None:
            holds = number in null_everywhere
        elif (bounds.low, bounds.high) != (item.low, item.high):
            holds = _contains(item, bounds)
        else:
            continue
        yield _added(entity, _range_text(item.property, item), holds=holds)


def _contains(outer: Range, inner: Range) -> bool:
    low = outer.low is None or (inner.low is not None and inner.low >= outer.low)
    high = outer.high is None or (inner.high is not None and inner.high <= outer.high)
    return low and high


def _diff_checks(
    entity: StepSubject, old: NodeType, new: NodeType, null_everywhere: set[int]
) -> Iterator[Step]:
    old_ids, new_ids = _ids(old), _ids(new)
    names = {number: name for name, number in old_ids.items()}
    names.update((number, name) for name, number in new_ids.items())
    before = {(old_ids[item.property], item.pattern) for item in old.checks}
    after = {(new_ids[item.property], item.pattern) for item in new.checks}
    for number, pattern in before - after:
        text = f"@check({names[number]}, {quote(pattern)})"
        yield RemoveConstraint(entity=entity, constraint=text, columns=(number,))
    for number, pattern in after - before:
        text = f"@check({names[number]}, {quote(pattern)})"
        yield _added(entity, text, holds=number in null_everywhere)


def _ids(item: EntityType) -> dict[str, int]:
    """Column ids by name; the ends of an edge get ids that no property has."""
    ids = {prop.name: prop.id for prop in item.properties}
    if item.kind == "edge":
        ids.update((name, number - len(ENDS)) for number, name in enumerate(ENDS))
    return ids


def _columns(names: Iterable[str], ids: Mapping[str, int]) -> _Columns:
    return tuple(sorted(ids[name] for name in names))


def _text(rule: str, columns: _Columns, names: Mapping[int, str]) -> str:
    return f"@{rule}({', '.join(names[number] for number in columns)})"


def _range_text(name: str, bounds: Range) -> str:
    return f"@range({name}, {_number(bounds.low)}..{_number(bounds.high)})"


def _number(value: int | float | None) -> str:
    if value is None:
        return ""
    kind = LiteralKind.FLOAT if isinstance(value, float) else LiteralKind.INT
    return format_literal(Literal(kind, value))
