"""The migration planner: from the accepted catalog to the wanted one, as ordered steps.

Pure: it reads two catalogs and decides. Entries are matched by identity (`identity.adopt`), so a
rename is a rename and not a drop with an addition. Whatever the planner cannot bridge becomes an
`UnsupportedChange`; it never leaves a difference out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.lang.catalog.identity import adopt, hint_cycles, hints_of, plain_interface
from omnigraph.lang.catalog.migrate_constraints import diff_constraints
from omnigraph.lang.catalog.migrate_properties import diff_properties
from omnigraph.lang.catalog.model import Cardinality, Catalog, EdgeType, NodeType, Property
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
    ExtendEnum,
    NarrowEnum,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    Step,
    StepSubject,
    Tier,
    Touch,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.lang.source import did_you_mean

_Entity = TypeVar("_Entity", NodeType, EdgeType)
_Named = Sequence[NodeType] | Sequence[EdgeType] | Sequence[Property]

_SHOWN_NAMES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """The steps of a migration; `result` is the catalog afterwards if the plan is supported."""

    steps: tuple[Step, ...]
    result: Catalog
    notes: tuple[str, ...] = ()  # what looks like a slip, though it can be planned

    @property
    def supported(self) -> bool:
        """True if the plan can be applied at all."""
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
        return {
            "supported": self.supported,
            "steps": [step.to_json() for step in self.steps],
            "notes": list(self.notes),
        }


def plan(accepted: Catalog, wanted: Catalog, *, allow_data_loss: bool = False) -> MigrationPlan:
    """Plan the way from `accepted` to `wanted`.

    Drops are soft unless `allow_data_loss`: earlier versions stay readable until a cleanup.
    """
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    result = adopt(wanted, accepted)
    steps: list[Step] = [*_diff_enums(accepted, result), *_diff_interfaces(accepted, result)]
    steps += _refuse_cycles(wanted, result)
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
    notes = tuple(_doubtful_hints(accepted, wanted, result))
    return MigrationPlan(steps=_ordered(steps, accepted), result=result, notes=notes)


# -- rename hints ----------------------------------------------------------------------------------


def _refuse_cycles(wanted: Catalog, result: Catalog) -> Iterator[Step]:
    """Hints in a circle: after they were applied they would read as if they were not."""
    for group, adopted in ((wanted.nodes, result.nodes), (wanted.edges, result.edges)):
        kept = {item.name: item for item in adopted}
        for cycle in hint_cycles(hints_of(group)):
            item = kept[cycle[0]]
            entity = StepSubject(kind=item.kind, name=item.name, id=item.id)
            yield _cyclic(entity, cycle)
        for item in group:
            for cycle in hint_cycles(hints_of(item.properties)):
                owner = kept[item.name]
                first = owner.property_by_name[cycle[0]]
                entity = StepSubject(
                    kind=item.kind,
                    name=item.name,
                    id=owner.id,
                    property=first.name,
                    property_id=first.id,
                )
                yield _cyclic(entity, cycle)


def _cyclic(entity: StepSubject, cycle: tuple[str, ...]) -> UnsupportedChange:
    circle = " from ".join((*cycle, cycle[0]))
    reason = (
        f"the rename hints form a cycle, {circle}; "
        "apply it in two steps, with a temporary name in the first"
    )
    return UnsupportedChange(entity=entity, code="OG-MF-110", reason=reason)


def _doubtful_hints(accepted: Catalog, wanted: Catalog, result: Catalog) -> Iterator[str]:
    """Hints that name nothing, beside drops of what they could have meant."""
    yield from _doubtful("node:", accepted.nodes, wanted.nodes, result.nodes)
    yield from _doubtful("edge:", accepted.edges, wanted.edges, result.edges)
    for before, group, after in (
        (accepted.nodes, wanted.nodes, result.nodes),
        (accepted.edges, wanted.edges, result.edges),
    ):
        old = {item.id: item for item in before}
        for item, kept in zip(group, after, strict=True):
            if kept.id in old:
                label = f"{item.kind}:{item.name}."
                there = old[kept.id].properties
                yield from _doubtful(label, there, item.properties, kept.properties)


def _doubtful(label: str, accepted: _Named, wanted: _Named, result: _Named) -> Iterator[str]:
    hints = [(name, old) for name, old in hints_of(wanted) if old is not None]
    if not hints:
        return
    known = {item.name for item in accepted}
    kept = {item.id for item in result}
    dropped = sorted(item.name for item in accepted if item.id not in kept)
    for name, old in hints:
        if dropped and old not in known:
            near = did_you_mean(old, dropped)
            gone = ", ".join(f"`{item}`" for item in dropped[:_SHOWN_NAMES_MAX])
            gone += " and others" if len(dropped) > _SHOWN_NAMES_MAX else ""
            note = f"`{label}{name}` is renamed from `{old}`, which does not exist, and {gone}"
            note += f" {'is' if len(dropped) == 1 else 'are'} dropped"
            yield f"{note}; {near}" if near else note


# -- what has no table -----------------------------------------------------------------------------


def _diff_enums(accepted: Catalog, result: Catalog) -> Iterator[Step]:
    """Named enums; what their values mean for properties is found at the properties."""
    old = {item.name: item.values for item in accepted.enums}
    new = {item.name: item.values for item in result.enums}
    for name in sorted(old.keys() | new.keys()):
        entity = StepSubject(kind="enum", name=name)
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
        entity = StepSubject(kind="interface", name=name)
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
        entity = StepSubject(kind=item.kind, name=item.name, id=type_id)
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
                entity=StepSubject(kind=item.kind, name=item.name, id=type_id),
                mode=mode,
                code="OG-DS-102" if item.kind == "node" else "OG-DS-103",
                tier=Tier.DESTRUCTIVE if hard else Tier.SAFE,
                touches_data=Touch.REWRITE if hard else Touch.NONE,
            )


def _diff_node(old: NodeType, new: NodeType) -> Iterator[Step]:
    if old.implements != new.implements:
        entity = StepSubject(kind="node", name=new.name, id=new.id)
        reason = "the interfaces of an existing node type cannot be changed"
        yield UnsupportedChange(entity=entity, code="OG-MF-109", reason=reason)


def _diff_edge(old: EdgeType, new: EdgeType, accepted: Catalog, result: Catalog) -> Iterator[Step]:
    entity = StepSubject(kind="edge", name=new.name, id=new.id)
    old_ends = [accepted.node_by_name[name].id for name in (old.source, old.target)]
    new_ends = [result.node_by_name[name].id for name in (new.source, new.target)]
    if old_ends != new_ends:
        names = {item.id: item.name for item in (*accepted.nodes, *result.nodes)}
        connected = " -> ".join(names[end] for end in old_ends)
        wanted = " -> ".join(names[end] for end in new_ends)
        reason = f"it connects {connected}, and cannot be made to connect {wanted}"
        if connected == wanted:
            reason = f"it connects {connected} of before, and these names mean other types now"
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

# Refusals first, since they decide. Then drops of what stands in the way of a new name, then
# names, so that every later step finds its entity under the new one; then additions, changes
# inside, and the other drops when nothing refers to them any more.
_PHASES: tuple[type[Step], ...] = (
    UnsupportedChange,
    RenameType,
    RenameProperty,
    AddType,
    AddProperty,
    RemoveConstraint,
    ChangeType,
    ExtendEnum,
    NarrowEnum,
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


def _ordered(steps: Iterable[Step], accepted: Catalog) -> tuple[Step, ...]:
    ordered = sorted(steps, key=_rank)
    renames = _chained([step for step in ordered if isinstance(step, RenameType | RenameProperty)])
    rest = [step for step in ordered if not isinstance(step, RenameType | RenameProperty)]
    split = sum(isinstance(step, UnsupportedChange) for step in rest)
    way = _in_the_way(renames, rest, accepted)
    clear = [step for at, step in enumerate(rest) if at in way]
    later = [step for at, step in enumerate(rest) if at not in way and at >= split]
    return (*rest[:split], *clear, *renames, *later)


def _in_the_way(
    renames: Iterable[RenameType | RenameProperty], rest: Sequence[Step], accepted: Catalog
) -> set[int]:
    """The other steps that free a name that a rename takes: drops, and what they need."""
    taken = {_slot(step, _new_name(step)) for step in renames}
    if not taken:
        return set()
    drops = {at: step for at, step in enumerate(rest) if isinstance(step, DropType | DropProperty)}
    way = {at for at, step in drops.items() if _dropped_slot(step) in taken}
    freed = [step.entity for at, step in drops.items() if at in way]
    nodes = {entity.name for entity in freed if entity.kind == "node" and not entity.property}
    columns = {(entity.kind, entity.id, entity.property_id) for entity in freed}
    edges = accepted.edge_by_name
    for at, step in enumerate(rest):
        entity = step.entity
        if isinstance(step, DropType) and entity.kind == "edge":
            edge = edges[entity.name]
            if not nodes.isdisjoint((edge.source, edge.target)):
                way.add(at)
        elif isinstance(step, RemoveConstraint) and any(
            (entity.kind, entity.id, number) in columns for number in step.columns
        ):
            way.add(at)
    return way


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
            link = waiting.pop(_slot(link, _new_name(link)), None)
        ordered += reversed(chain)
    return ordered


def _new_name(step: RenameType | RenameProperty) -> str:
    return step.entity.property or step.entity.name


def _slot(step: RenameType | RenameProperty, name: str) -> tuple[str, str, str]:
    owner = step.entity.name if isinstance(step, RenameProperty) else ""
    return step.entity.kind, owner, name


def _dropped_slot(step: DropType | DropProperty) -> tuple[str, str, str]:
    entity = step.entity
    if entity.property is None:
        return entity.kind, "", entity.name
    return entity.kind, entity.name, entity.property
