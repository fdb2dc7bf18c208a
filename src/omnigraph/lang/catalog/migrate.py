"""The migration planner: from the accepted catalog to the wanted one, as ordered steps.

Pure: it reads two catalogs and decides. Entries are matched by identity (`identity.adopt`), so a
rename is a rename and not a drop with an addition. Whatever the planner cannot bridge becomes an
`UnsupportedChange`; it never leaves a difference out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.lang.catalog.identity import adopt, plain_interface
from omnigraph.lang.catalog.migrate_constraints import diff_constraints
from omnigraph.lang.catalog.migrate_properties import diff_properties
from omnigraph.lang.catalog.model import Cardinality, Catalog, EdgeType, NodeType
from omnigraph.lang.catalog.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropMode,
    DropProperty,
    DropType,
    Entity,
    ExtendEnum,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    Step,
    Tier,
    Touch,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)

_Entity = TypeVar("_Entity", NodeType, EdgeType)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What has to happen; `result` is the catalog afterwards if the plan is supported."""

    steps: tuple[Step, ...]
    result: Catalog

    @property
    def supported(self) -> bool:
        """Can the plan be applied at all?"""
        return not any(isinstance(step, UnsupportedChange) for step in self.steps)

    def require_supported(self) -> None:
        """Raise one `InvalidInput` that names every change that cannot be applied."""
        refused = [step for step in self.steps if isinstance(step, UnsupportedChange)]
        if refused:
            lines = [f"[{step.code}] {step.entity}: {step.reason}" for step in refused]
            text = "the schema cannot be changed like this:\n" + "\n".join(lines)
            steps = [step.to_json() for step in refused]
            raise InvalidInput(Code.MIGRATION_UNSUPPORTED, text, steps=steps)

    def to_json(self) -> dict[str, JsonValue]:
        """The plan as plain values."""
        return {"supported": self.supported, "steps": [step.to_json() for step in self.steps]}


def plan(accepted: Catalog, wanted: Catalog, *, allow_data_loss: bool = False) -> MigrationPlan:
    """Plan the way from `accepted` to `wanted`.

    Drops are soft unless `allow_data_loss`: earlier versions stay readable until a cleanup.
    """
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    result = adopt(wanted, accepted)
    steps: list[Step] = [*_diff_enums(accepted, result), *_diff_interfaces(accepted, result)]
    steps += _diff_types(accepted.nodes, result.nodes, mode)
    steps += _diff_types(accepted.edges, result.edges, mode)
    old_nodes = {item.id: item for item in accepted.nodes}
    for node in result.nodes:
        if node.id in old_nodes:
            steps += _diff_node(old_nodes[node.id], node)
    old_edges = {item.id: item for item in accepted.edges}
    for edge in result.edges:
        if edge.id in old_edges:
            steps += _diff_edge(old_edges[edge.id], edge, accepted, result)
    return MigrationPlan(steps=_ordered(steps), result=result)


# -- what has no table -----------------------------------------------------------------------------


def _diff_enums(accepted: Catalog, result: Catalog) -> Iterator[Step]:
    """Named enums; what their values mean for properties is found at the properties."""
    old = {item.name: item.values for item in accepted.enums}
    new = {item.name: item.values for item in result.enums}
    for name in sorted(old.keys() | new.keys()):
        entity = Entity(kind="enum", name=name)
        if name not in old:
            yield AddType(entity=entity)
        elif name not in new:
            yield DropType(entity=entity, mode=DropMode.SOFT)
        elif old[name] != new[name]:
            yield UpdateTypeMetadata(entity=entity, changes=("values",))


def _diff_interfaces(accepted: Catalog, result: Catalog) -> Iterator[Step]:
    """Interfaces hold no data: what changes in them shows at the nodes that implement them."""
    old = {item.name: plain_interface(item) for item in accepted.interfaces}
    new = {item.name: plain_interface(item) for item in result.interfaces}
    for name in sorted(old.keys() | new.keys()):
        entity = Entity(kind="interface", name=name)
        if name not in old:
            yield AddType(entity=entity)
        elif name not in new:
            reason = "an interface cannot be removed or renamed"
            yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)
        elif old[name] != new[name]:
            yield UpdateTypeMetadata(entity=entity, changes=("properties",))


# -- node and edge types ---------------------------------------------------------------------------


def _diff_types(
    accepted: Iterable[_Entity], wanted: Iterable[_Entity], mode: DropMode
) -> Iterator[Step]:
    """Additions, renames and drops of types, and everything inside the ones that stay."""
    old = {item.id: item for item in accepted}
    new = {item.id: item for item in wanted}
    for type_id, item in new.items():
        entity = Entity(kind=item.kind, name=item.name, id=type_id)
        before = old.get(type_id)
        if before is None:
            yield AddType(entity=entity)
            continue
        if before.name != item.name:
            yield RenameType(entity=entity, old=before.name)
        if before.annotations != item.annotations:
            reason = "custom annotations cannot be changed"
            yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)
        changes = [
            name
            for name in ("description", "instruction")
            if getattr(before, name) != getattr(item, name)
        ]
        if changes:
            yield UpdateTypeMetadata(entity=entity, changes=tuple(changes))
        yield from diff_properties(before, item, mode)
        yield from diff_constraints(before, item)
    for type_id, item in old.items():
        if type_id not in new:
            hard = mode is DropMode.HARD
            yield DropType(
                entity=Entity(kind=item.kind, name=item.name, id=type_id),
                mode=mode,
                code="OG-DS-102" if item.kind == "node" else "OG-DS-103",
                tier=Tier.DESTRUCTIVE if hard else Tier.SAFE,
                touches_data=Touch.REWRITE if hard else Touch.NONE,
            )


def _diff_node(old: NodeType, new: NodeType) -> Iterator[Step]:
    if old.implements != new.implements:
        entity = Entity(kind="node", name=new.name, id=new.id)
        reason = "the interfaces of an existing node type cannot be changed"
        yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)


def _diff_edge(old: EdgeType, new: EdgeType, accepted: Catalog, result: Catalog) -> Iterator[Step]:
    entity = Entity(kind="edge", name=new.name, id=new.id)
    old_ends = [accepted.node_by_name[name].id for name in (old.source, old.target)]
    new_ends = [result.node_by_name[name].id for name in (new.source, new.target)]
    if old_ends != new_ends:
        names = {item.id: item.name for item in (*accepted.nodes, *result.nodes)}
        connected = " -> ".join(names[end] for end in old_ends)
        wanted = " -> ".join(names[end] for end in new_ends)
        reason = f"it connects {connected}, and cannot be made to connect {wanted}"
        yield UnsupportedChange(entity=entity, code="OG-MF-108", reason=reason)
    before, after = old.cardinality, new.cardinality
    if before == after:
        return
    looser = after.low <= before.low and (
        after.high is None or (before.high is not None and after.high >= before.high)
    )
    yield ChangeCardinality(
        entity=entity,
        old=_card_text(before),
        new=_card_text(after),
        code=None if looser else "OG-MF-105",
        tier=Tier.SAFE if looser else Tier.VALIDATED,
        touches_data=Touch.NONE if looser else Touch.SCAN,
    )


def _card_text(card: Cardinality) -> str:
    return f"@card({card.low}..{'' if card.high is None else card.high})"


# -- order -----------------------------------------------------------------------------------------

# Refusals first, since they decide. Then names, so that every later step finds its entity under
# the new one; then additions, changes inside, and drops when nothing refers to them any more.
_PHASES: tuple[type[Step], ...] = (
    UnsupportedChange,
    RenameType,
    RenameProperty,
    AddType,
    AddProperty,
    RemoveConstraint,
    ChangeType,
    ExtendEnum,
    ChangeNullability,
    ChangeDefault,
    ChangeCardinality,
    AddConstraint,
    UpdateTypeMetadata,
    UpdatePropertyMetadata,
    DropProperty,
    DropType,
)
_PHASE_OF = {step: number for number, step in enumerate(_PHASES)}
_KIND_ORDER = {"enum": 0, "interface": 1, "node": 2, "edge": 3}


def _ordered(steps: Iterable[Step]) -> tuple[Step, ...]:
    ordered = sorted(steps, key=_rank)
    renames = _chained([step for step in ordered if isinstance(step, RenameType | RenameProperty)])
    rest = [step for step in ordered if not isinstance(step, RenameType | RenameProperty)]
    split = sum(isinstance(step, UnsupportedChange) for step in rest)
    return (*rest[:split], *renames, *rest[split:])


def _rank(step: Step) -> tuple[int, int, str, str, str]:
    entity = step.entity
    kind = _KIND_ORDER[entity.kind]
    if isinstance(step, DropType):
        kind = -kind  # edges go before the nodes they connect
    text = ""
    if isinstance(step, AddConstraint | RemoveConstraint):
        text = step.constraint
    elif isinstance(step, UnsupportedChange):
        text = f"{step.code} {step.reason}"
    return _PHASE_OF[type(step)], kind, entity.name, entity.property or "", text


def _chained(renames: list[RenameType | RenameProperty]) -> list[RenameType | RenameProperty]:
    """Renames in an order in which each new name is free when its turn comes."""
    waiting = {_slot(step, step.old): step for step in renames}
    ordered: list[RenameType | RenameProperty] = []
    for step in renames:
        chain: list[RenameType | RenameProperty] = []
        link: RenameType | RenameProperty | None = waiting.pop(_slot(step, step.old), None)
        while link is not None:
            chain.append(link)
            new = link.entity.property if isinstance(link, RenameProperty) else link.entity.name
            link = waiting.pop(_slot(link, new or ""), None)
        ordered += reversed(chain)
    return ordered


def _slot(step: RenameType | RenameProperty, name: str) -> tuple[str, str, str]:
    owner = step.entity.name if isinstance(step, RenameProperty) else ""
    return step.entity.kind, owner, name
