"""Catalogs and plans as short, readable text for the fixtures."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.catalog.migrate import MigrationPlan
from omnigraph.lang.catalog.model import (
    Catalog,
    CustomAnnotation,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.lang.tokens import quote


def render_catalog(catalog: Catalog) -> str:
    """One block per declaration, in the catalog's order."""
    blocks = [f"enum {item.name}: {', '.join(item.values)}" for item in catalog.enums]
    blocks += ["\n".join(_interface(item)) for item in catalog.interfaces]
    blocks += ["\n".join(_entity(item)) for item in catalog.nodes]
    blocks += ["\n".join(_entity(item)) for item in catalog.edges]
    return "\n".join(blocks) if blocks else "(no types)"


def _interface(item: InterfaceType) -> Iterator[str]:
    yield f"interface {item.name}"
    yield from (_property(prop) for prop in item.properties)


def _entity(item: NodeType | EdgeType) -> Iterator[str]:
    head = f"{item.kind} {item.name} #{item.id}"
    if isinstance(item, EdgeType):
        card = item.cardinality
        head += f": {item.source} -> {item.target}"
        head += f" card {card.low}..{'*' if card.high is None else card.high}"
    elif item.implements:
        head += f" implements {', '.join(item.implements)}"
    yield head
    if item.description is not None:
        yield f"  description {quote(item.description)}"
    if item.instruction is not None:
        yield f"  instruction {quote(item.instruction)}"
    if item.renamed_from is not None:
        yield f"  renamed from {item.renamed_from}"
    yield from (f"  custom {_custom(note)}" for note in item.annotations)
    yield from (_property(prop) for prop in item.properties)
    if item.key:
        yield f"  key {', '.join(item.key)}"
    yield from (f"  unique {', '.join(columns)}" for columns in item.uniques)
    yield from (f"  index {', '.join(columns)}" for columns in item.indexes)
    if isinstance(item, NodeType):
        for bounds in item.ranges:
            low = "" if bounds.low is None else repr(bounds.low)
            high = "" if bounds.high is None else repr(bounds.high)
            yield f"  range {bounds.property} {low}..{high}"
        yield from (f"  check {rule.property} {quote(rule.pattern)}" for rule in item.checks)


def _property(prop: Property) -> str:
    line = f"  {prop.id} {prop.name}: {prop.type}"
    if prop.enum_name is not None:
        line += f" named {prop.enum_name}"
    if prop.default is not None:
        line += f" default {prop.default}"
    if prop.embed is not None:
        line += f" embed {prop.embed.source}"
        line += f" model {quote(prop.embed.model)}" if prop.embed.model is not None else ""
    if prop.metric is not None:
        line += f" metric {prop.metric}"
    if prop.description is not None:
        line += f" description {quote(prop.description)}"
    if prop.renamed_from is not None:
        line += f" renamed from {prop.renamed_from}"
    return line + "".join(f" custom {_custom(note)}" for note in prop.annotations)


def _custom(note: CustomAnnotation) -> str:
    inside = [str(arg) for arg in note.args]
    inside += [f"{key}={value}" for key, value in note.kwargs]
    return f"@{note.name}({', '.join(inside)})" if inside else f"@{note.name}"


def render_plan(plan: MigrationPlan) -> str:
    """One line per step: kind, entity, details, code, tier and what it does to data."""
    lines = ["supported" if plan.supported else "NOT SUPPORTED"]
    for step in plan.steps:
        known = {"entity", "from", "to"} if step.kind.startswith("rename") else {"entity"}
        details = {key: value for key, value in step.details().items() if key not in known}
        line = f"{step.kind} {step.entity}"
        if step.entity.property_id is not None:
            line += f" #{step.entity.property_id}"
        if step.kind.startswith("rename"):
            line += f" from {step.details()['from']}"
        for key, value in details.items():
            if value is not None:
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                line += f" {key}={shown}"
        line += f" [{step.code}]" if step.code else ""
        lines.append(f"{line} ({step.tier}, {step.touches_data})")
    lines += [f"note: {note}" for note in plan.notes]
    if plan.result.retired:
        lines.append(f"retired {', '.join(plan.result.retired)}")
    return "\n".join(lines)
