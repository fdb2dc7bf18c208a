"""The survey of a graph for a clean-up: histories, tags, holds, intents, and what states pin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.core.branches.kept_states import KeptStates
from omnigraph.core.cleanup.commit_graph import CommitGraph
from omnigraph.core.cleanup.retention import (
    CommitAt,
    History,
    Line,
    NeededState,
    Retained,
    RetentionPolicy,
    StateAt,
    StateSpan,
    reaches_further,
)
from omnigraph.core.cleanup.table_plan import TableNeeds
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.lineage import first_parents
from omnigraph.core.commits.records import VERSION_KIND
from omnigraph.core.commits.target import NewBranch
from omnigraph.core.journal.intent import Intent, IntentLog
from omnigraph.core.journal.staging_areas import StagingAreas
from omnigraph.core.layout import MANIFEST
from omnigraph.core.locks.holds import Holds
from omnigraph.core.manifest.lost_head import lost_head
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.refs import tags_of
from omnigraph.errors import Gone, NotFound
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName

_VERSION_COLUMNS = ("location", "table_version", "table_branch")
_VERSIONS = f"object_type = '{VERSION_KIND}'"


@dataclass(slots=True)
class PinnedVersions:
    """The versions of tables that states pin, by the folder of the table and its fork."""

    by_path: dict[str, dict[str | None, set[int]]] = field(default_factory=dict)

    def add(self, path: str, branch: str | None, version: int) -> None:
        """Take in one version."""
        self.by_path.setdefault(path, {}).setdefault(branch, set()).add(version)

    def forks(self) -> set[tuple[str, str]]:
        """The forks that something stands on."""
        return {
            (path, fork)
            for path, forks in self.by_path.items()
            for fork in forks
            if fork is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Looks at one graph."""

    tables: Tables
    manifest: Manifest
    intents: IntentLog
    holds: Holds
    areas: StagingAreas
    kept: KeptStates

    # -- histories ---------------------------------------------------------------------------------

    def history(self, policy: RetentionPolicy, now_us: int) -> History:
        """Look at every branch, newest commits first, and at what must stay besides.

        A branch that cannot be read ends the clean-up: what it needs is not known.
        """
        heads = self._heads()
        held = tuple(self._held())
        # After the heads, so that no state of theirs is missing here that is there.
        stored = {
            (item.branch or "", item.version) for item in self.tables.inventories.versions(MANIFEST)
        }
        graph = CommitGraph(self.manifest, heads, stored)
        lines = tuple(
            self._line(graph, head, heads, held, policy, now_us) for head in heads.values()
        )
        # Refs are set on main without moving its head: the newest version is not always a commit's.
        newest = (StateAt(head.fork or "", head.manifest_version) for head in heads.values())
        tagged = (tag.commit for tag in tags_of(heads[MAIN].refs).values())
        wanted = map(graph.state_of, {*tagged, *graph.merge_bases()})
        named = frozenset(
            {*newest, *(state for state in wanted if state), *self._of_deleted_branches()}
        )
        return History(lines=lines, named=named, held=held, now_us=now_us)

    def _heads(self) -> dict[BranchName, GraphVersion]:
        """The newest state of every branch; Corrupt if one is not what was acknowledged."""
        for branch in self.manifest.lost.all():
            raise branch.error()
        heads = {name: self.manifest.snapshot(name) for name in self.manifest.names()}
        for head in heads.values():
            lost = lost_head(self.tables, head)
            if lost is not None:
                raise lost.error()
        return heads

    def _line(
        self,
        graph: CommitGraph,
        head: GraphVersion,
        heads: Mapping[BranchName, GraphVersion],
        held: tuple[NeededState, ...],
        policy: RetentionPolicy,
        now_us: int,
    ) -> Line:
        onward = [item.state for item in held if item.onward and item.branch == head.branch]
        # What a branch has of another one is also on the line of that one, with its fences.
        others = {other.fork or "" for other in heads.values()} - {head.fork or ""}
        found: list[CommitAt] = []
        for place, at in enumerate(graph.line(head.branch)):
            is_shared = at.state.fork in others
            if found and not reaches_further(place, at, onward, policy, now_us, is_shared):
                break
            found.append(at)
        return Line(branch=head.branch, commits=tuple(found))

    def _of_deleted_branches(self) -> Iterator[StateAt]:
        """The states of deleted branches whose files stay, because merges compare with them."""
        for info in self.manifest.deleted_branches():
            if not self.kept.is_merge_base(info):
                continue
            log = self.manifest.log_of(info)
            for commit in first_parents(log.get, self.manifest.head_of(info)):
                version = log.manifest_version(commit.id) or 0
                if version <= info.parent_version:
                    break
                yield StateAt(info.fork or "", version)

    # -- what others need --------------------------------------------------------------------------

    def _held(self) -> Iterator[NeededState]:
        for hold in self.holds.all():
            branch = self.manifest.find_incarnation(hold.incarnation) or hold.branch
            yield NeededState(branch, StateAt(hold.fork or "", hold.version), hold.onward)
        for intent in self.intents.pending():
            target = intent.request.target
            if isinstance(target, NewBranch):
                try:
                    holder = self.manifest.holder(target.source, target.source_version)
                except NotFound:
                    continue  # its source is gone, and so nothing will come of it
                state = StateAt(holder.fork or "", target.source_version)
                yield NeededState(target.source, state)

    def needs(self, path: str, pins: PinnedVersions) -> TableNeeds:
        """The versions that the readers of one table need."""
        floors: dict[str | None, int] = {}
        for intent in self.intents.pending():
            for item in intent.tables:
                if item.path == path:
                    known = floors.get(item.table_branch, item.expected)
                    floors[item.table_branch] = min(known, item.expected)
        return TableNeeds(
            pins=pins.by_path.get(path, {}),
            floors=floors,
            keeps_left=path in self.areas.tables_in_use(),
        )

    def is_moved(self, path: str) -> bool:
        """True if a pending intent is about a table."""
        return any(_is_about(intent, path) for intent in self.intents.pending())

    # -- what states pin ---------------------------------------------------------------------------

    def pins(self, retained: Retained) -> PinnedVersions:
        """The versions of tables that the states which stay consist of."""
        found = PinnedVersions()
        # From old to new: of the next state of a manifest only what is new is read.
        for state in sorted(retained.single):
            for pin in self._pins_at(state):
                found.add(pin.path, pin.table_branch, pin.version)
        for span in retained.spans:
            if span.oldest != span.newest:
                self._add_span(found, span)
        return found

    def _pins_at(self, state: StateAt) -> Iterable[TablePin]:
        try:
            return self.manifest.at_state(state.fork or None, state.version).tables.values()
        except (Gone, NotFound):
            return ()  # an earlier clean-up has taken it: nothing is left to keep

    def _add_span(self, found: PinnedVersions, span: StateSpan) -> None:
        """Every version that was published between the ends: numbers only grow along a manifest."""
        before = self._published(span.oldest)
        latest = _latest(before)
        for row in self._published(span.newest).to_pylist():
            location, version = row["location"], row["table_version"]
            if version > latest.get(location, -1):
                found.add(location, row["table_branch"], version)

    def _published(self, state: StateAt) -> pa.Table:
        pin = Pin(path=MANIFEST, version=state.version, branch=state.fork or None)
        return self.tables.open(pin).read(_VERSION_COLUMNS, filter=_VERSIONS)


def _latest(published: pa.Table) -> dict[str, int]:
    """The greatest version of each table."""
    if not published.num_rows:
        return {}
    grouped = published.group_by("location").aggregate([("table_version", "max")])
    places = grouped.column("location").to_pylist()
    return dict(zip(places, grouped.column("table_version_max").to_pylist(), strict=True))


def _is_about(intent: Intent, path: str) -> bool:
    locations = {getattr(record, "location", None) for record in intent.request.records}
    return path in locations or any(item.path == path for item in intent.tables)
