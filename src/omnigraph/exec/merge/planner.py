"""The plan of a merge: its states, the outcome for each type, and the conflicts that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import type_state
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.changes.table_changes import ChangeLimits, Comparing, TableChanges
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.exec import tuning
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.merge.base_states import NO_ORIGINS, Origins, state_of
from omnigraph.exec.merge.broken_rules import settle_broken_rules
from omnigraph.exec.merge.conflicts import (
    Choice,
    MergeConflict,
    Resolve,
    Resolving,
    unsettled,
)
from omnigraph.exec.merge.criss_cross import agree, changed_since
from omnigraph.exec.merge.fast_forward import TakenOver, taken_over
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.judge import judge_merged
from omnigraph.exec.merge.orphans import settle_orphans
from omnigraph.exec.merge.resolution_file import ResolutionFile
from omnigraph.exec.merge.schemas import MergedSchema, TypeSides, merged_schema
from omnigraph.exec.merge.table_merge import TableMerge
from omnigraph.exec.merge.tasks import MergeWork
from omnigraph.exec.merge.type_merge import TypeMerge
from omnigraph.exec.mutate.committed import CommittedRows, MutationLimits
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.values import Base
from omnigraph.runtime import cancellation
from omnigraph.store.reading.table_diff import TableDiff
from omnigraph.types import CommitId


@dataclass(frozen=True, slots=True, eq=False)
class MergeStates:
    """The three states of a merge; with several merge bases also the one that these come from."""

    base: GraphVersion
    ours: GraphVersion
    theirs: GraphVersion
    schema: MergedSchema
    root: GraphVersion | None = None

    def is_copied(self, sides: TypeSides) -> bool:
        """True if our side gets all rows of a new type, and nothing of ours can conflict with them.

        An edge of theirs may lead to a node that we have deleted.
        """
        is_new = sides.ours is None and sides.base is None and sides.theirs is not None
        is_free = sides.entity.kind == "node" or self.ours.head == self.base.head
        has_blobs = any(item.type.base is Base.BLOB for item in sides.entity.properties)
        return is_new and is_free and not has_blobs

    def types(self) -> Iterator[TypeSides]:
        """Every type of the merged schema, as the three states have it."""
        schema = self.schema
        for entity in (*schema.catalog.nodes, *schema.catalog.edges):
            yield TypeSides(
                entity,
                type_state(self.base, schema.base, entity),
                type_state(self.ours, schema.ours, entity),
                type_state(self.theirs, schema.theirs, entity),
            )


@dataclass(frozen=True, slots=True, eq=False)
class MergePlan:
    """The plan of a merge. Nothing is written yet."""

    states: MergeStates
    types: Mapping[str, TypeMerge]
    images: Mapping[str, MergedImages | None]
    conflicts: tuple[MergeConflict, ...]
    settled: tuple[tuple[MergeConflict, Choice], ...]
    taken_over: tuple[TakenOver, ...] = ()
    copied: tuple[TypeSides, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True if neither entities nor the schema change."""
        return not self.counts and not self.states.schema.is_new

    @property
    def counts(self) -> dict[str, ChangeCounts]:
        """The changes by table key; types that do not change are left out."""
        found = {key: item.merge.counts(item.outcome) for key, item in self.types.items()}
        found |= {item.key: item.counts for item in self.taken_over}
        for sides in self.copied:
            count = self.states.theirs.pin(sides.their_key).row_count
            found[sides.key] = ChangeCounts(inserted=count)
        return {key: item for key, item in found.items() if item.total}


class MergePlanner:
    """Plans merges of one graph. Thread-safe."""

    def __init__(self, repo: Repository, limits: MutationLimits) -> None:
        """Read this graph, within these limits."""
        self._repo = repo
        self._limits = limits

    def states(
        self,
        ours: GraphVersion,
        theirs: GraphVersion,
        bases: Sequence[CommitId],
        names: tuple[str, str],
        origins: Origins = NO_ORIGINS,
    ) -> list[MergeStates]:
        """The three states for each merge base, the latest first; all have one schema to come."""
        before = [state_of(self._repo, each, ours.branch, theirs.branch) for each in bases]
        schema = merged_schema(self._repo, before, origins.common, ours, theirs, names)
        return [
            MergeStates(
                each,
                ours,
                theirs,
                schema.against(self._repo.schema(each).catalog),
                origins.nearest,
            )
            for each in before
        ]

    def _types(
        self,
        bases: Sequence[MergeStates],
        resolve: Resolving,
        without: Collection[str],
        work: MergeWork,
        *,
        by_row: bool,
    ) -> dict[str, TypeMerge]:
        """Merge every type that either side has changed since one of the merge bases."""
        found: dict[str, TypeMerge] = {}
        latest = bases[0]
        for sides in zip(*(states.types() for states in bases), strict=True):
            cancellation.check()
            first = sides[0]
            if first.our_key in without:
                continue
            if all(each.is_unchanged for each in sides) and not _leads_to(first, found):
                continue
            merges = [self._table_merge(each, work) for each in sides]
            if len(bases) == 1:
                outcome = merges[0].merged(resolve, by_row=by_row)
            else:
                changed = changed_since(self._repo, latest.root, sides)
                outcome = agree(merges, changed, resolve, by_row=by_row)
            committed = None
            if first.ours is not None:
                known = first.ours.entity
                committed = CommittedRows(self._repo, latest.ours, known, self._limits)
            item = found[first.key] = TypeMerge(merges[0], outcome, first, committed)
            if len(bases) > 1:
                item.touch_sources()
        return found

    def _table_merge(self, sides: TypeSides, work: MergeWork) -> TableMerge:
        entity, base = sides.entity, sides.base
        if sides.theirs is None:
            assert sides.ours is not None, "a side has it"
            changes = table_changes(self._repo.type_diff(None, sides.ours, entity), entity)
            own = changes.touched()
            return TableMerge(entity, own.nothing(), own)
        theirs = self._repo.type_diff(base, sides.theirs, entity)
        ours = None if sides.ours is None else self._repo.type_diff(base, sides.ours, entity)
        count = theirs.count + (0 if ours is None else ours.count)
        is_large = count > tuning.active.held_merge_rows_max
        limits = ChangeLimits(keys_max=tuning.active.merge_keys) if is_large else None
        if is_large:
            work.start(theirs.bytes + (0 if ours is None else ours.bytes))

        def compared(diff: TableDiff) -> tuple[TableChanges, Comparing]:
            changes = table_changes(diff, entity, limits)
            plain = changes.comparison.unequal
            return changes, work.comparing(changes.comparison) if is_large else plain

        changes, unequal = compared(theirs)
        found = changes.keys(unequal)
        own = found.nothing()
        if ours is not None:
            changes, unequal = compared(ours)
            # What only our side has touched is left alone, whether that changed it or not.
            if ours.count <= tuning.active.touched_rows_max:
                own = changes.touched().confirmed(found, unequal)
            else:
                own = changes.keys(unequal)
        return TableMerge(entity, found, own, work if is_large else None)

    def _images(self, item: TypeMerge) -> MergedImages | None:
        found = MergedImages.of(item.merge, item.outcome, table_schema(item.sides.entity))
        if found is not None and found.work is None:
            self._limits.check_rows(found.whole.num_rows, item.sides.key)
            self._limits.check_bytes(found.whole.nbytes, item.sides.key)
        return found

    def plan(
        self,
        states: Sequence[MergeStates],
        resolve: Resolve,
        work: MergeWork,
        *,
        by_row: bool,
        taken: tuple[TakenOver, ...] = (),
    ) -> MergePlan:
        """Merge against each base, and judge the outcome."""
        file = resolve if isinstance(resolve, ResolutionFile) else None
        resolving = Resolving(resolve) if file is None else Resolving(file, file.place)
        copied = tuple(sides for sides in states[0].types() if states[0].is_copied(sides))
        without = {item.key for item in taken} | {sides.our_key for sides in copied}
        types = self._types(states, resolving, without, work, by_row=by_row)
        first = [each for item in types.values() for each in item.outcome.conflicts]
        while True:
            cancellation.check()
            orphans = settle_orphans(types, resolving)
            images = {key: self._images(item) for key, item in types.items()}
            broken = judge_merged(types, images)
            # Settling a conflict can break another rule, so that is judged again.
            if not settle_broken_rules(types, broken, resolving):
                break
        images |= {key: self._images(item) for key, item in types.items() if item.leave_unchanged()}
        found = (*first, *orphans, *(each.conflict for each in broken))
        conflicts = tuple(map(resolving.left, found))
        if file is not None:
            met = [*conflicts, *(each for each, _ in resolving.settled.values())]
            self._check_lines(file, states, met, work, by_row=by_row)
        settled = tuple(resolving.settled.values())
        return MergePlan(states[0], types, images, conflicts, settled, taken, copied)

    def _check_lines(
        self,
        file: ResolutionFile,
        states: Sequence[MergeStates],
        met: Sequence[MergeConflict],
        work: MergeWork,
        *,
        by_row: bool,
    ) -> None:
        """Refuse lines about conflicts that do not exist.

        One choice can settle several conflicts, so a line counts as well if its conflict exists
        as long as nothing is settled.
        """
        unused = file.not_among(item.key for item in met)
        if unused:
            plain = self.plan(states, unsettled, work, by_row=by_row)
            known = {item.key for item in plain.conflicts}
            for line in unused:
                if line.key not in known:
                    raise file.surplus(line)

    def taken_over(self, states: MergeStates) -> tuple[TakenOver, ...]:
        """The types of a fast-forward whose files are taken over."""
        found = (taken_over(self._repo, sides) for sides in states.types())
        return tuple(item for item in found if item is not None)


def _leads_to(sides: TypeSides, nodes: Collection[str]) -> bool:
    """True for edges that only our side declares, to nodes that theirs may have deleted."""
    edge = sides.entity
    if not isinstance(edge, EdgeType) or sides.theirs is not None or sides.base is not None:
        return False
    return any(table_key("node", end) in nodes for end in (edge.source, edge.target))
