"""Exporting: the entities of one pinned state as files that `load` reads back."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.export.model import STREAM, Exported, ExportRequest
from omnigraph.dataplane.export.parts import (
    MANIFEST,
    Part,
    PartReceipt,
    leftovers,
    manifest,
    plan_parts,
    write_part,
)
from omnigraph.dataplane.export.plan import ExportPlan, make_plan
from omnigraph.dataplane.export.shared_folder import require_shared, verify
from omnigraph.dataplane.export.single_file import SingleFile
from omnigraph.dataplane.export.target import open_file, open_target
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.lang.catalog.model import EntityType
from omnigraph.store.io.streams import delete_stream, exists

T = TypeVar("T")

_STAGE: Final = "write"


class Exporter:
    """Exports states of one graph."""

    def __init__(self, repo: Repository) -> None:
        """Export from this graph."""
        self._repo = repo

    def export(self, request: ExportRequest, runner: Runner, monitor: Monitor) -> Exported:
        """Write what is asked for.

        One file or stream is written by this process; the files of a folder by the runner's tasks.
        A file appears under its name when it is complete. When an export fails, what it wrote to
        a folder is removed; what it wrote to a stream cannot be.

        Raises:
            InvalidInput: The request makes no sense, something is there already, or workers do not
                see the target as this process does.
            NotFound: The target has no such bucket.
            Gone: The state is not stored any more.
            Unavailable: Storage failed.
            StopRequested: The call was cancelled.
        """
        plan = make_plan(request, self._repo.root)
        if plan.is_folder:
            return self._to_folder(request, plan, runner, monitor)
        return self._to_file(request, plan, runner, monitor)

    # -- one file ----------------------------------------------------------------------------------

    def _to_file(
        self, request: ExportRequest, plan: ExportPlan, runner: Runner, monitor: Monitor
    ) -> Exported:
        if plan.uri != STREAM and not request.overwrite:
            with storage_errors():
                if exists(plan.uri, request.storage_options):
                    raise _occupied(plan.uri, plan.uri)
        monitor.stage(_STAGE)
        work = SingleFile(self._repo, request.snapshot, plan, monitor)
        threads = len(os.sched_getaffinity(0)) if runner.is_remote else runner.parallelism
        with open_target(request.target, plan.uri, request.storage_options) as output:
            work.write(output, threads)
            size = output.tell()
        return Exported(
            files=(plan.uri,),
            rows=work.rows,
            bytes=size,
            commit=str(request.snapshot.head),
            is_parallel=False,
        )

    # -- a folder ----------------------------------------------------------------------------------

    def _to_folder(
        self, request: ExportRequest, plan: ExportPlan, runner: Runner, monitor: Monitor
    ) -> Exported:
        snapshot, options = request.snapshot, request.storage_options
        old = self._occupants(request, plan)
        parts = plan_parts(self._repo, snapshot, plan, options, checksums=runner.is_remote)
        if runner.is_remote and parts:
            # Before anything is removed: a refusal leaves the earlier export alone.
            require_shared(plan.uri, options, runner, self._repo.ids)
        for name in old:
            with storage_errors():
                delete_stream(f"{plan.uri}/{name}", options)
        with _removed_on_failure(parts):
            receipts = _run(parts, runner, monitor)
            if runner.is_remote:
                verify(plan.uri, parts, receipts)
            with open_file(f"{plan.uri}/{MANIFEST}", options) as output:
                output.write(manifest(snapshot, plan, parts, receipts))
        rows = {table_key(item.kind, item.name): 0 for item in plan.entities}
        for part, receipt in zip(parts, receipts, strict=True):
            rows[table_key(part.entity.kind, part.entity.name)] += receipt.rows
        return Exported(
            files=tuple(part.uri for part in parts),
            rows=rows,
            bytes=sum(receipt.bytes for receipt in receipts),
            commit=str(snapshot.head),
            is_parallel=True,
        )

    @staticmethod
    def _occupants(request: ExportRequest, plan: ExportPlan) -> list[str]:
        """The files of an earlier export in the folder, if they may be replaced."""
        known: list[EntityType] = [*request.catalog.nodes, *request.catalog.edges]
        old = leftovers(plan, known, request.storage_options)
        if old and not request.overwrite:
            raise _occupied(plan.uri, f"{plan.uri}/{old[0]}")
        return old


def _run(parts: tuple[Part, ...], runner: Runner, monitor: Monitor) -> list[PartReceipt]:
    monitor.stage(_STAGE, len(parts))
    monitor.check()
    receipts: dict[int, PartReceipt] = {}
    with _closed_after(runner.run(_STAGE, write_part, parts)) as results:
        for number, receipt in results:
            receipts[number] = receipt
            monitor.add(tasks=1, rows=receipt.rows, bytes=receipt.bytes)
            monitor.check()
    return [receipts[number] for number in range(len(parts))]


@contextmanager
def _closed_after(results: Iterator[T]) -> Iterator[Iterator[T]]:
    """The results of a runner; its tasks are ended when the block is left."""
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


@contextmanager
def _removed_on_failure(parts: tuple[Part, ...]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for part in parts:
            # The failure itself is what the user should hear of.
            with suppress(GraphError), storage_errors():
                delete_stream(part.uri, part.storage_options)
        raise


def _occupied(target: str, found: str) -> InvalidInput:
    text = f"{found!r} is there already: choose another target, or overwrite it"
    return InvalidInput(Code.INPUT_INVALID, text, target=target)
