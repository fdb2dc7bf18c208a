"""The choice between the dense and the direct view of a snapshot, and running queries on either.

Looking entities up costs a little each time, loading whole types costs much once, and it is not
known how many queries a process will run. So a process looks up until that has cost as much as
loading, and then loads. However many queries follow, it spends at most twice the time that was
necessary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from threading import Lock

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec import tuning
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.direct.lookup import LookupBounds, LookupTooLarge
from omnigraph.exec.direct.view import DirectView, wanted_columns
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.program import Program
from omnigraph.exec.read.rows import Rows
from omnigraph.exec.read.run import SearchBackend
from omnigraph.exec.view import GraphView
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue, EntityRef


class Access(StrEnum):
    """The way in which a query reaches the data; the answer never depends on it."""

    AUTO = "auto"
    DENSE = "dense"  # whole columns and adjacency in memory
    DIRECT = "direct"  # the store's indexes, for the few entities that are touched


class LookupCost:
    """The time that a process has spent on looking up entities, by type. Thread-safe."""

    __slots__ = ("_lock", "_spent_ns")

    def __init__(self) -> None:
        """Start with nothing spent."""
        self._lock = Lock()
        self._spent_ns: dict[str, int] = {}

    def add(self, entities: Iterable[EntityRef], nanoseconds: int) -> None:
        """Count a query that has looked up entities of these types for so long."""
        with self._lock:
            for entity in entities:
                key = entity.table_key
                self._spent_ns[key] = self._spent_ns.get(key, 0) + nanoseconds

    def favours_lookup(self, entities: Iterable[EntityRef], rows_to_load: int) -> bool:
        """True while looking up has cost less than loading so many rows would."""
        if rows_to_load <= tuning.active.loaded_rows_max:
            return False
        spent = max((self._spent_ns.get(entity.table_key, 0) for entity in entities), default=0)
        return spent < rows_to_load * tuning.active.load_row_ns


class QueryExecutor:
    """Runs reading programs on snapshots of one graph. Thread-safe."""

    __slots__ = ("cost", "limits", "repo", "search", "views")

    def __init__(
        self, repo: Repository, views: ViewCache, search: SearchBackend, limits: Limits
    ) -> None:
        """Read this graph through these dense views, or directly."""
        self.repo = repo
        self.views = views
        self.search = search
        self.limits = limits
        self.cost = LookupCost()

    def reader(self, pinned: GraphVersion, catalog: Catalog) -> SnapshotReader:
        """The reader of a snapshot; `catalog` is the schema in force there."""
        return SnapshotReader(self, pinned, catalog)


class SnapshotReader:
    """Runs programs on one snapshot, and chooses the view for each."""

    __slots__ = ("_catalog", "_executor", "_loaded", "_pinned")

    def __init__(self, executor: QueryExecutor, pinned: GraphVersion, catalog: Catalog) -> None:
        """Read this pinned state."""
        self._executor = executor
        self._pinned = pinned
        self._catalog = catalog
        self._loaded: set[tuple[str, ...]] = set()  # types that were found loaded together

    def run(
        self,
        program: Program,
        params: Mapping[str, ConstValue],
        access: str,
        profile: Profile | None,
    ) -> Rows:
        """Run a program; the profile, if there is one, notes the path taken."""
        executor = self._executor
        executor.repo.require_open()
        now_ms = self._now_ms()
        if self.path(program, access) is Access.DIRECT:
            try:
                return self._look_up(program, params, now_ms, profile)
            except LookupTooLarge as wide:
                if profile is not None:
                    profile.restart(f"too wide for the direct path: {wide}")
        if profile is not None:
            profile.path = Access.DENSE.value
        return self._on(self._dense(), program, params, now_ms, profile)

    def path(self, program: Program, access: str) -> Access:
        """The way in which a program will reach the data: dense or direct.

        Raises:
            InvalidInput: There is no such access.
        """
        if access == Access.AUTO:
            if not program.selective or program.types in self._loaded:
                return Access.DENSE
            executor, reads = self._executor, program.plan.reads
            view = executor.views.view(self._pinned, self._catalog)
            if executor.cost.favours_lookup(reads, view.rows_to_read(reads)):
                return Access.DIRECT
            self._loaded.add(program.types)
            return Access.DENSE
        if access not in (Access.DENSE, Access.DIRECT):
            known = ", ".join(item.value for item in Access)
            message = f"there is no access {access!r}; known: {known}"
            raise InvalidInput(Code.INPUT_INVALID, message, access=str(access))
        # Search reads whole columns anyway.
        return Access.DENSE if program.searches else Access(access)

    def _look_up(
        self,
        program: Program,
        params: Mapping[str, ConstValue],
        now_ms: int,
        profile: Profile | None,
    ) -> Rows:
        if profile is not None:
            profile.path = Access.DIRECT.value
        executor = self._executor
        begin = executor.repo.clock.ticks_ns()
        wanted = wanted_columns(program.plan)
        bounds = LookupBounds(bytes=executor.limits.bytes_max)
        view = self._direct(wanted, bounds)
        try:
            # All of it is read now: an error later, for its width, could not be handled here.
            return self._on(view, program, params, now_ms, profile).settled()
        finally:
            executor.cost.add(program.plan.reads, executor.repo.clock.ticks_ns() - begin)

    def _now_ms(self) -> int:
        """The moment of a statement."""
        return self._executor.repo.clock.now_us() // 1000

    def _dense(self) -> DenseView:
        """The whole columns and the adjacency of the snapshot."""
        return self._executor.views.view(self._pinned, self._catalog)

    def _direct(self, wanted: Mapping[str, Sequence[str]], bounds: LookupBounds) -> DirectView:
        """The entities of the snapshot, looked up one by one."""
        return DirectView(self._executor.repo, self._pinned, self._catalog, wanted, bounds)

    def _on(
        self,
        view: GraphView,
        program: Program,
        params: Mapping[str, ConstValue],
        now_ms: int,
        profile: Profile | None,
    ) -> Rows:
        executor = self._executor
        return program.run(view, params, now_ms, executor.search, executor.limits, profile)
