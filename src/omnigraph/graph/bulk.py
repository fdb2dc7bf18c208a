"""Loads, exports and optimisation of an open graph: what callers say becomes a request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, BinaryIO, TypeVar

from omnigraph.core.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.dataplane.export.exporter import Exporter
from omnigraph.dataplane.export.model import ExportRequest
from omnigraph.dataplane.load.fill import FillRequest, VectorFiller
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.reading import bytes_of
from omnigraph.dataplane.load.request import Fill, LoadMode, LoadRequest, StreamBatch
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Cancelled, Listener, Monitor
from omnigraph.dataplane.run.choose import choose
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import EngineName, Runner
from omnigraph.dataplane.source.model import FrameInput
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.spark.config import SparkConfig, configured, unavailable
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, InvalidInput
from omnigraph.graph.values import (
    EmbedResult,
    ExportResult,
    LoadResult,
    OptimizeResult,
    commit_of,
    warnings_of,
)
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.source import did_you_mean
from omnigraph.runtime.environment import storage_options as from_variables
from omnigraph.types import BranchName

_Choice = TypeVar("_Choice", bound=StrEnum)
_THREADS = "OMNIGRAPH_LOAD_CONCURRENCY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what bulk work runs, and who watches."""

    engine: str = EngineName.AUTO
    spark: object = None
    progress: Listener | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTerms:
    """What a load is asked to do, as the caller spells it."""

    mode: str
    branch: BranchName
    create_from: BranchName | None
    replace: bool
    cascade: bool
    actor: str | None
    idempotency_key: str | None
    format: str | None
    storage_options: Mapping[str, str] | None
    violations_max: int
    violations_file: str | os.PathLike[str] | None
    batch: StreamBatch | None = None
    fill: Fill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTerms:
    """What an export is asked to do, as the caller spells it."""

    target: str | os.PathLike[str] | BinaryIO
    format: str | None
    types: tuple[str, ...] | None
    parts: bool
    compression: str | None
    overwrite: bool
    storage_options: Mapping[str, str] | None


class Bulk:
    """The bulk work of one graph."""

    def __init__(self, repo: Repository, embeddings: Embeddings | None = None) -> None:
        """Work on this graph; texts that are loaded are embedded by `embeddings`."""
        self._repo = repo
        self._embeddings = embeddings or Embeddings(lambda: None)

    def load(self, source: object, catalog: Catalog, asked: LoadTerms, terms: Terms) -> LoadResult:
        """Load what a caller gave."""
        self._repo.require_writable()
        mode = one_of(LoadMode, asked.mode, "mode")
        _check_together(asked, mode)
        options = _reached_by(asked.storage_options)
        with resolve(source, catalog, format=asked.format, storage_options=options) as found:
            inputs = found.inputs
            size = bytes_of(inputs)
            frames = [item.frame for item in inputs if isinstance(item, FrameInput)]
            if terms.spark is None:
                # A DataFrame belongs to a session, and can be read by no other.
                own = (getattr(frame, "sparkSession", None) for frame in frames)
                terms = replace(terms, spark=next(filter(None, own), None))
            request = LoadRequest(
                inputs=inputs,
                catalog=catalog,
                mode=mode,
                branch=asked.branch,
                create_from=asked.create_from,
                replace=asked.replace,
                cascade=asked.cascade,
                actor=asked.actor,
                idempotency_key=asked.idempotency_key,
                violations_max=asked.violations_max,
                violations_file=_path(asked.violations_file),
                batch=asked.batch,
                fill=asked.fill,
            )
            with self._running("load", terms, size, has_frames=bool(frames)) as (runner, monitor):
                done = Loader(self._repo, self._embeddings).load(request, runner, monitor)
        now = monitor.now
        return LoadResult(
            commit=commit_of(done.commit),
            mode=mode.value,
            counts=done.counts,
            branch_created=done.branch_created,
            engine=now.engine,
            reason=now.reason,
            rows=done.rows,
            bytes=done.bytes,
            seconds=now.seconds,
            replayed=done.replayed,
            warnings=warnings_of(done.missing),
            vectors_missing=sum(item.count for item in done.missing),
        )

    def export(
        self, snapshot: GraphVersion, catalog: Catalog, asked: ExportTerms, terms: Terms
    ) -> ExportResult:
        """Export one pinned state."""
        target = asked.target
        request = ExportRequest(
            snapshot=snapshot,
            catalog=catalog,
            target=os.fspath(target) if isinstance(target, str | os.PathLike) else target,
            format=asked.format,
            types=asked.types,
            parts=asked.parts,
            compression=asked.compression,
            overwrite=asked.overwrite,
            storage_options=_reached_by(asked.storage_options),
        )
        size = self._bytes_of(snapshot)
        with self._running("export", terms, size) as (runner, monitor):
            done = Exporter(self._repo).export(request, runner, monitor)
        now = monitor.now
        by_caller = now.engine == EngineName.SPARK and not done.is_parallel
        return ExportResult(
            commit=done.commit,
            files=done.files,
            rows=done.rows,
            bytes=done.bytes,
            engine=EngineName.INPROCESS.value if by_caller else now.engine,
            reason="one file is written by one process" if by_caller else now.reason,
            seconds=now.seconds,
        )

    def optimize(self, branch: BranchName, actor: str | None, terms: Terms) -> OptimizeResult:
        """Put the tables of a branch in order."""
        self._repo.require_writable()
        optimizer = Optimizer(self._repo)
        with self._running("optimize", terms, optimizer.bytes(branch)) as (runner, monitor):
            done = optimizer.optimize(branch, runner, monitor, actor=actor)
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

    def embed(self, request: FillRequest, terms: Terms) -> EmbedResult:
        """Compute vectors of a branch."""
        self._repo.require_writable()
        filler = VectorFiller(self._repo, self._embeddings)
        with self._running("embed", terms, filler.bytes(request)) as (runner, monitor):
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
        """One type of a pinned state as a DataFrame; the session is kept for whoever comes next."""
        from omnigraph.dataplane.spark.registration import tell  # noqa: PLC0415
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        root = self._repo.root
        options = {f"storage.{name}": value for name, value in root.storage_options.items()}
        options |= {"path": root.uri, "type": type_name, "commit": str(snapshot.head)}
        options["branch"] = str(snapshot.branch)
        if columns is not None:
            options["columns"] = ",".join(columns)
        if where is not None:
            options["where"] = where
        with acquire(configured(spark)) as held:
            if not held.is_owned:
                tell(held.session, held.cache, ships=held.ships)
            return held.session.read.format("omnigraph").options(**options).load()

    # -- inside ------------------------------------------------------------------------------------

    def _bytes_of(self, snapshot: GraphVersion) -> int:
        """About how much a snapshot holds."""
        return sum(
            self._repo.table(pin).data_bytes for pin in snapshot.tables.values() if pin.row_count
        )

    @contextmanager
    def _running(
        self, operation: str, terms: Terms, size: int | None, *, has_frames: bool = False
    ) -> Iterator[tuple[Runner, Monitor]]:
        """Choose what the work runs on, and watch it; an interrupt stops its tasks, too."""
        if terms.progress is not None and not callable(terms.progress):
            raise InvalidInput(Code.INPUT_INVALID, "progress is a function that takes a Progress")
        config = configured(terms.spark)
        chosen, reason = choose(
            one_of(EngineName, terms.engine, "engine"),
            bytes_total=size,
            has_frames=has_frames,
            spark_named=config.is_named,
            spark_running=_is_spark_running(),
            spark_available=lambda: unavailable(config),
        )
        monitor = Monitor(operation, chosen.value, reason, self._repo.clock, terms.progress)
        with _runner(chosen, config, monitor) as runner:
            try:
                yield runner, monitor
            except Cancelled:
                raise KeyboardInterrupt from None
            except BaseException:
                monitor.stop()
                raise


@contextmanager
def _runner(chosen: EngineName, config: SparkConfig, monitor: Monitor) -> Iterator[Runner]:
    if chosen is EngineName.INPROCESS:
        yield InProcessRunner(_threads(), monitor.stop)
        return
    # Spark is imported only by those who use it.
    from omnigraph.dataplane.spark.runner import SparkRunner  # noqa: PLC0415
    from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

    monitor.stage("start")
    with acquire(config) as held:
        yield SparkRunner(held, monitor.reached)


def _is_spark_running() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from omnigraph.dataplane.spark.session import is_running  # noqa: PLC0415

    return is_running()


def _threads() -> int | None:
    """How many tasks run at once in this process, if the environment says so."""
    text = os.environ.get(_THREADS)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 1024:
        return int(text)
    raise InvalidInput(Code.SETTINGS_INVALID, f"{_THREADS} is a number from 1 to 1024, not {text}")


def _reached_by(options: Mapping[str, str] | None) -> Mapping[str, str]:
    """How to reach object storage; addresses of files do not look at it."""
    return from_variables("s3://", os.environ) if options is None else dict(options)


def _check_together(asked: LoadTerms, mode: LoadMode) -> None:
    """Refuse options that have no meaning in a mode, before they are taken for granted."""
    if asked.replace and mode is not LoadMode.MERGE:
        raise InvalidInput(Code.INPUT_INVALID, "replace=True is for mode 'merge'")
    if asked.cascade and mode is not LoadMode.OVERWRITE:
        raise InvalidInput(Code.INPUT_INVALID, "cascade=True is for mode 'overwrite'")


def _path(place: str | os.PathLike[str] | None) -> str | None:
    return None if place is None else os.fspath(place)


def one_of(kinds: type[_Choice], value: object, what: str) -> _Choice:
    """The choice of this name, or an error that lists all."""
    known = [kind.value for kind in kinds]
    if isinstance(value, str) and value in known:
        return kinds(value)
    near = did_you_mean(value, known) if isinstance(value, str) else None
    text = f"{what} {value!r:.80} is not one of {', '.join(known)}" + (f"; {near}" if near else "")
    raise InvalidInput(Code.INPUT_INVALID, text)
