"""Loads, exports and optimisation of an open graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.maintenance.indices import filter_keys
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.copy.copier import Copier, CopyRequest
from omnigraph.dataplane.export.exporter import Exporter
from omnigraph.dataplane.export.model import ExportRequest
from omnigraph.dataplane.load.fill import FillRequest, VectorFiller
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.reading import bytes_of
from omnigraph.dataplane.load.request import Loaded, LoadRequest
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Listener, Monitor, StopRequested
from omnigraph.dataplane.run.choose import SparkLimits, choose
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.source.model import FrameInput
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.spark.config import SparkConfig, cluster_of, configured, unavailable
from omnigraph.dataplane.spark.opened import entity_named
from omnigraph.dataplane.verify.verifier import Depth, Verifier
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, Corrupt, Gone, GraphError, InvalidInput, Unavailable
from omnigraph.graph.arguments import one_of
from omnigraph.graph.context import GraphContext
from omnigraph.graph.maintenance.reports import finding
from omnigraph.graph.values import commit_of, warnings_of
from omnigraph.lang.catalog.model import Catalog, EntityKind
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import Base
from omnigraph.results.maintenance import VerifyResult
from omnigraph.results.writes import (
    CopyResult,
    EmbedResult,
    ExportResult,
    LoadResult,
    OptimizeResult,
)
from omnigraph.runtime import telemetry
from omnigraph.runtime.settings import Settings
from omnigraph.types import BranchName, Engine, EngineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The engine that bulk work runs on, and the listener of its progress."""

    engine: EngineChoice = "auto"
    spark: object = None
    progress: Listener | None = None

    @classmethod
    def checked(
        cls, engine: object = "auto", spark: object = None, progress: Listener | None = None
    ) -> Execution:
        """The execution that the arguments of a call ask for.

        Raises:
            InvalidInput: There is no such engine, or the listener cannot be called.
        """
        if progress is not None and not callable(progress):
            raise InvalidInput(Code.INPUT_INVALID, "progress is a function that takes a Progress")
        return cls(engine=one_of(EngineChoice, engine, "engine"), spark=spark, progress=progress)


class Bulk:
    """The bulk work of one graph."""

    def __init__(
        self,
        repo: Repository,
        embeddings: Embeddings,
        settings: Settings | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Work on a graph.

        Args:
            repo: The graph.
            embeddings: Computes the vectors of texts that are loaded.
            settings: How many tasks run at once in this process, and when Spark is taken.
            variables: The environment; by default that of the process.
        """
        self._repo = repo
        self._embeddings = embeddings
        self._settings = settings or Settings()
        self._variables = variables

    @classmethod
    def of(cls, parts: GraphContext) -> Bulk:
        """The bulk work of an open graph."""
        return cls(parts.repo, parts.embeddings, parts.settings, parts.variables)

    def load(
        self,
        source: object,
        request: LoadRequest,
        execution: Execution,
        base: GraphVersion | None = None,
        format: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> LoadResult:
        """Load what a caller gave.

        Args:
            source: Files, frames or rows; they become the inputs of the request.
            request: The load, without its inputs.
            execution: What it runs on.
            base: What the caller has pinned: the newest state of the branch, or of the one that it
                is created from.
            format: The format of files whose names do not show it.
            storage_options: How to reach object storage.
        """
        self._repo.require_writable()
        catalog = request.catalog
        # Tasks of other processes cannot read what arrives here.
        is_here = execution.engine == "inprocess"
        with resolve(
            source,
            catalog,
            format=format,
            storage_options=storage_options,
            arriving_bytes=request.split_bytes if is_here else None,
            grouping=True,
        ) as found:
            inputs = found.inputs
            size = bytes_of(inputs)
            frames = [item.frame for item in inputs if isinstance(item, FrameInput)]
            if execution.spark is None:
                # A DataFrame belongs to a session, and can be read by no other.
                own = (getattr(frame, "sparkSession", None) for frame in frames)
                execution = replace(execution, spark=next(filter(None, own), None))
            with self.running("load", execution, size, has_frames=bool(frames)) as (
                runner,
                monitor,
            ):
                loader = Loader(self._repo, self._embeddings)
                done = loader.load(replace(request, inputs=inputs), runner, monitor, base)
        if not done.replayed:
            self._filter_keys(request, done)
        now = monitor.now
        return LoadResult(
            commit=commit_of(done.commit),
            mode=request.mode,
            counts=done.counts,
            branch_created=done.branch_created,
            engine=now.engine,
            reason=now.reason,
            rows=done.rows,
            bytes=done.bytes,
            seconds=now.seconds,
            stages=monitor.stages,
            replayed=done.replayed,
            warnings=warnings_of(done.missing),
            vectors_missing=sum(item.count for item in done.missing),
        )

    def _filter_keys(self, request: LoadRequest, done: Loaded) -> None:
        """Build key filters of large tables. A failure is no error of the committed load."""
        try:
            filter_keys(self._repo, request.branch, done.counts, done.rows, actor=request.actor)
        except GraphError as error:
            telemetry.count("load.without_filter")
            telemetry.logger.info("no filter of keys after a load: %s", error)

    def export(
        self, request: ExportRequest, execution: Execution, *, hold: bool = False
    ) -> ExportResult:
        """Export one pinned state."""
        size = self._bytes_of(request.snapshot)
        with (
            self._repo.holding(request.snapshot, "export", insist=hold) as held,
            self.running("export", execution, size) as (runner, monitor),
        ):
            monitor.keep = held.move
            done = Exporter(self._repo).export(request, runner, monitor)
        now = monitor.now
        by_caller = now.engine == "spark" and not done.is_parallel
        return ExportResult(
            commit=done.commit,
            files=done.files,
            rows=done.rows,
            bytes=done.bytes,
            engine="inprocess" if by_caller else now.engine,
            reason="one file is written by one process" if by_caller else now.reason,
            seconds=now.seconds,
            stages=monitor.stages,
        )

    def copy(self, request: CopyRequest, execution: Execution) -> CopyResult:
        """Copy the graph, or a part of its branches."""
        copier = Copier(self._repo)
        with self.running("copy", execution, copier.bytes(request)) as (runner, monitor):
            done = copier.copy(request, runner, monitor)
        now = monitor.now
        return CopyResult(
            uri=request.target.uri,
            commit=str(done.head),
            branches=tuple(map(str, done.branches)),
            files=done.files,
            bytes=done.bytes,
            reused=done.reused,
            engine=now.engine,
            reason=now.reason,
            seconds=now.seconds,
        )

    def optimize(
        self,
        branch: BranchName,
        actor: str | None,
        execution: Execution,
        message: str | None = None,
    ) -> OptimizeResult:
        """Compact the tables of a branch and complete its indexes."""
        self._repo.require_writable()
        optimizer, base = Optimizer(self._repo), self._repo.snapshot(branch)
        with self.running("optimize", execution, optimizer.bytes(base)) as (runner, monitor):
            done = optimizer.optimize(base, runner, monitor, actor=actor, message=message)
        now = monitor.now
        return OptimizeResult(
            commit=None if done.published is None else commit_of(done.published.commit),
            fragments=done.fragments,
            indexes=done.indexes,
            pending=tuple((item.table_key, item.column, item.reason) for item in done.pending),
            engine=now.engine,
            reason=now.reason,
            seconds=now.seconds,
        )

    def verify(self, depth: Depth, execution: Execution) -> VerifyResult:
        """Compare what the graph says about itself with what is stored."""
        try:
            size = 0 if depth is Depth.METADATA else self._bytes_of(self._repo.snapshot())
        except (Corrupt, Gone, Unavailable):
            size = 0  # what is damaged is reported, not raised
        with self.running("verify", execution, size) as (runner, monitor):
            done = Verifier(self._repo).verify(depth, runner, monitor)
        now = monitor.now
        return VerifyResult(
            depth=depth.value,
            findings=tuple(finding(flaw) for flaw in done.flaws),
            branches=done.branches,
            commits=done.commits,
            tables=done.tables,
            files=done.files,
            bytes=done.bytes,
            rows=done.rows,
            engine=now.engine,
            reason=now.reason,
            seconds=now.seconds,
        )

    def embed(self, request: FillRequest, execution: Execution) -> EmbedResult:
        """Compute vectors of a branch."""
        self._repo.require_writable()
        filler = VectorFiller(self._repo, self._embeddings)
        with self.running("embed", execution, filler.bytes(request)) as (runner, monitor):
            done = filler.fill(request, runner, monitor)
        now = monitor.now
        return EmbedResult(
            commit=None if done.commit is None else commit_of(done.commit),
            commits=done.commits,
            vectors=done.vectors,
            skipped=done.skipped,
            engine=now.engine,
            reason=now.reason,
            seconds=now.seconds,
        )

    def to_spark(
        self,
        type_name: str,
        snapshot: GraphVersion,
        columns: tuple[str, ...] | None,
        where: str | None,
        spark: object,
    ) -> Any:
        """One type of a pinned state as a DataFrame; the session is kept for later calls."""
        from omnigraph.dataplane.spark.carried_errors import spark_error  # noqa: PLC0415
        from omnigraph.dataplane.spark.pruning import prune_columns  # noqa: PLC0415
        from omnigraph.dataplane.spark.registration import make_known  # noqa: PLC0415
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        root = self._repo.root
        options = {f"storage.{name}": value for name, value in root.storage_options.items()}
        options |= {"path": root.uri, "type": type_name, "commit": str(snapshot.head)}
        options["branch"] = str(snapshot.branch)
        if columns is not None:
            options["columns"] = ",".join(columns)
        if where is not None:
            options["where"] = where
        with acquire(configured(spark, variables=self._variables)) as held:
            if held.is_owned:
                prune_columns(held.session)
            else:
                make_known(held.session, held.cache, ships=held.ships)
            try:
                return held.session.read.format("omnigraph").options(**options).load()
            except Exception as error:
                if (known := spark_error(error)) is not None:
                    raise known from error
                raise

    def graph_frame(
        self,
        key: tuple[EntityKind, str],
        snapshot: GraphVersion,
        catalog: Catalog,
        columns: tuple[str, ...] | None,
        spark: object,
    ) -> Any:
        """The nodes or edges of a type with numbers for ids; the session is kept."""
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        kind, name = key
        entity = entity_named(f"{kind}:{name}", catalog)
        known = [field.name for field in table_schema(entity)]
        blobs = {item.name for item in entity.properties if item.type.base is Base.BLOB}
        chosen = tuple(each for each in known if each not in blobs) if columns is None else columns
        for column in chosen:
            if column not in known:
                near = did_you_mean(column, known)
                text = f"{name} has no column '{column}'" + (f"; {near}" if near else "")
                raise InvalidInput(Code.INPUT_INVALID, text, column=column)
        shown = {column: column for column in chosen}
        with acquire(configured(spark, variables=self._variables)) as held:
            # Without Spark, getting a session has said what to install.
            from omnigraph.dataplane.spark.dense import DenseFrames  # noqa: PLC0415

            frames = DenseFrames(held, self._repo, snapshot, catalog)
            return frames.nodes(name, shown) if kind == "node" else frames.edges(name, shown)

    # -- inside ------------------------------------------------------------------------------------

    def _bytes_of(self, snapshot: GraphVersion) -> int:
        """The size of a snapshot in bytes, estimated."""
        return sum(
            self._repo.table(pin).data_bytes for pin in snapshot.tables.values() if pin.row_count
        )

    @contextmanager
    def running_merge(self, size: int) -> Iterator[Runner]:
        """The runner of a merge of about so many bytes."""
        with self.running("merge", Execution(), size) as (runner, _):
            yield runner

    @contextmanager
    def running(
        self, operation: str, execution: Execution, size: int | None, *, has_frames: bool = False
    ) -> Iterator[tuple[Runner, Monitor]]:
        """The runner that is chosen, and its monitor; an interrupt stops the tasks."""
        config = configured(execution.spark, variables=self._variables)
        chosen, reason = choose(
            execution.engine,
            bytes_total=size,
            has_frames=has_frames,
            spark_named=config.is_named,
            spark_running=_is_spark_running(),
            spark_available=lambda: unavailable(config),
            cluster=cluster_of(config),
            limits=SparkLimits(
                cold_bytes=self._settings.spark_bytes_min,
                warm_bytes=self._settings.spark_running_bytes_min,
            ),
        )
        monitor = Monitor(operation, chosen, reason, self._repo.clock, execution.progress)
        with self._runner(chosen, config, monitor) as runner:
            try:
                yield runner, monitor
            except StopRequested:
                raise KeyboardInterrupt from None
            except BaseException:
                monitor.stop()
                raise

    @contextmanager
    def _runner(self, chosen: Engine, config: SparkConfig, monitor: Monitor) -> Iterator[Runner]:
        if chosen == "inprocess":
            yield InProcessRunner(self._settings.load_concurrency or None, monitor.stop)
            return
        # Spark is imported only by those who use it.
        from omnigraph.dataplane.spark.runner import SparkRunner  # noqa: PLC0415
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        monitor.stage("start")
        with acquire(config) as held:
            yield SparkRunner(held, monitor.reached, monitor.describe)


def _is_spark_running() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from omnigraph.dataplane.spark.session import is_running  # noqa: PLC0415

    return is_running()
