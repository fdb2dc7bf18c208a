"""A pinned moment of a graph, and the queries against it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, InvalidInput, LimitExceeded
from omnigraph.exec.access import Access
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.arguments import one_of, seconds, token
from omnigraph.graph.context import GraphContext
from omnigraph.graph.plan_cache import CompiledQuery, PlanCache, types_of
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.explain import explain
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import AccessChoice, EngineChoice

# The bounds of memory that a query has in this process, and not on Spark.
_MEMORY: Final = frozenset({"query_bytes_max", "frame_rows_max"})
_NOTHING: Mapping[str, object] = MappingProxyType({})


class Snapshot:
    """A graph as of one commit. What is read through it never changes.

    Example:
        ```python
        now = graph.snapshot()
        now.query("query all() { match { $p: Person } return { count($p) as people } }")
        ```
    """

    __slots__ = ("_authorizer", "_parts", "_pinned", "_plans", "_reader")

    def __init__(
        self, parts: GraphContext, pinned: GraphVersion, plans: PlanCache, authorizer: Authorizer
    ) -> None:
        """Read this pinned state."""
        self._authorizer = authorizer
        self._parts = parts
        self._pinned = pinned
        self._plans = plans
        self._reader = parts.queries.reader(pinned, plans.catalog)

    def __repr__(self) -> str:
        return f"Snapshot(branch={self.branch!r}, commit={self.commit!r})"

    @property
    def pinned(self) -> GraphVersion:
        """The versions of its tables; for the other parts of the facade."""
        return self._pinned

    @property
    def branch(self) -> str:
        """The branch that it was taken of."""
        return str(self._pinned.branch)

    @property
    def commit(self) -> str:
        """The id of the commit that it shows."""
        return str(self._pinned.head)

    @property
    def version(self) -> int:
        """The version of the manifest."""
        return self._pinned.manifest_version

    @property
    def schema(self) -> str:
        """The schema in force, as it was written."""
        return self._plans.schema.text

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of entities of each type, by `node:Type` and `edge:Type`."""
        return {key: pin.row_count for key, pin in sorted(self._pinned.tables.items())}

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        access: AccessChoice = "auto",
        engine: EngineChoice = "auto",
        spark: object = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> Rows:
        """Run a reading query; see `Graph.query`."""
        if timeout is not None or cancel is not None:
            with limited(self._parts.clock, seconds(timeout), token(cancel)):
                # What is read later would be read without a limit.
                return self.query(
                    text, params, name=name, access=access, engine=engine, spark=spark
                ).settled()
        reading = self._plans.reading(text, name)
        self._authorizer.ask(Permission.READ, self._pinned.branch, types=reading.types)
        bound = bind(reading.plan.params, params or _NOTHING)
        if engine == "auto":
            return self._automatically(reading, bound, access, spark)
        if engine == "inprocess":
            return self._reader.run(reading.program, bound, access, None)
        found = self._on_spark(reading, bound, engine, spark)
        assert found is not None
        return found

    def explain(self, text: str, *, name: str | None = None) -> str:
        """The plan of a query and how it would reach the data, as text."""
        self._parts.repo.require_open()
        plan = self._plans.plan(text, name)
        self._authorizer.ask(Permission.READ, self._pinned.branch, types=types_of(plan))
        answer = explain(plan)
        if not isinstance(plan, ReadPlan):
            return answer
        reading = self._plans.reading(text, name)
        path = self._reader.path(reading.program, Access.AUTO)
        return f"{answer}steps, {path.value}\n{reading.program.describe()}"

    def profile(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        access: AccessChoice = "auto",
    ) -> Profile:
        """Run a query and report what each operator did: rows, time, and the path taken."""
        reading = self._plans.reading(text, name)
        self._authorizer.ask(Permission.READ, self._pinned.branch, types=reading.types)
        profile = Profile(self._parts.clock)
        bound = bind(reading.plan.params, params or _NOTHING)
        profile.rows = self._reader.run(reading.program, bound, access, profile)
        return profile

    def _automatically(
        self,
        reading: CompiledQuery,
        params: Mapping[str, ConstValue],
        access: AccessChoice,
        spark: object,
    ) -> Rows:
        """Run here, or on Spark if it cannot keep within the bound of memory here."""
        found: Rows | None = None
        if access == "auto" and self._is_large(reading):
            found = self._on_spark(reading, params, "auto", spark)
        if found is not None:
            return found
        try:
            return self._reader.run(reading.program, params, access, None)
        except LimitExceeded as error:
            if access == "auto" and error.details.get("limit") in _MEMORY:
                found = self._on_spark(reading, params, "auto", spark)
            if found is None:
                raise
            return found

    def _is_large(self, reading: CompiledQuery) -> bool:
        """True if a query certainly reads more at once than it may in this process."""
        if reading.program.selective:
            return False  # it touches a few entities, however many there are
        tables, most = self._pinned.tables, self._parts.limits.bytes_max
        for key, width in reading.widths:
            pin = tables.get(key)
            if pin is not None and pin.row_count * width > most:
                return True
        return False

    def _on_spark(
        self,
        reading: CompiledQuery,
        params: Mapping[str, ConstValue],
        engine: EngineChoice,
        spark: object,
    ) -> Rows | None:
        """The result on Spark; None when `auto` finds that there is no Spark here."""
        # Few queries go there, and the others should not wait for its imports.
        from omnigraph.graph.snapshot import on_spark  # noqa: PLC0415

        self._parts.repo.require_open()
        catalog = self._plans.catalog
        return on_spark(self._parts, reading, params, self._pinned, catalog, engine, spark)


def is_newest(snapshot: Snapshot) -> bool:
    """True if the branch of a snapshot has not moved since; False if that is not clear at once.

    For servers: it never reads what is new, so it never takes long.
    """
    snapshot._authorizer.ask(Permission.READ, snapshot._pinned.branch)
    repo = snapshot._parts.repo
    repo.require_open()
    with storage_errors():
        return repo.manifest.is_newest(snapshot._pinned)


def on_spark(
    parts: GraphContext,
    reading: CompiledQuery,
    params: Mapping[str, ConstValue],
    pinned: GraphVersion,
    catalog: Catalog,
    engine: EngineChoice,
    spark: object,
) -> Rows | None:
    """The result of a query on Spark; None when `auto` finds that there is no Spark here."""
    from omnigraph.dataplane.spark.config import configured, unavailable  # noqa: PLC0415

    asked = one_of(EngineChoice, engine, "engine")
    config = configured(spark, variables=parts.variables)
    missing = unavailable(config)
    if missing is not None:
        if asked == "spark":
            raise InvalidInput(Code.ENGINE_UNAVAILABLE, missing)
        return None
    # Spark is imported only by those who use it.
    from omnigraph.exec.spark.query import SparkQueries  # noqa: PLC0415

    queries = SparkQueries(parts.repo, parts.search, parts.limits)
    now_ms = parts.clock.now_us() // 1000
    return queries.run(reading.plan, params, now_ms, pinned, catalog, config)
