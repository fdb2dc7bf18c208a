"""Optimizing a branch: compact its tables, bring their indexes up to date, publish once.

No row changes, and no reader waits. Everything is written beside the tables before the first of
them moves; then each moves by up to three commits, and all become visible together. A process that
writes to the same tables meanwhile wins: what was done for a table that has not moved is kept, the
rest is done again, a few times.

On a branch only the tables are looked at that the branch has written to. The others are still
those of the branch that it was made from, and are optimized there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias, TypeVar

from omnigraph.core.branches.branches import is_fork_of
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.retry import wait_seconds, with_retries
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared
from omnigraph.dataplane.optimize.job import (
    Done,
    IndexTask,
    Job,
    RewriteTask,
    build,
    plan_job,
    report,
    rewrite,
    staged,
)
from omnigraph.dataplane.optimize.model import Optimized
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.runtime import telemetry
from omnigraph.store import tuning
from omnigraph.store.maintenance.plan import MaintenancePlan
from omnigraph.store.maintenance.tasks import Draft
from omnigraph.types import MAIN

Task = TypeVar("Task", RewriteTask, IndexTask)
Result = TypeVar("Result")
_Kept: TypeAlias = dict[tuple[TablePin, MaintenancePlan], Done]


class Optimizer:
    """Keeps the tables of one graph in order. Thread-safe."""

    def __init__(self, repo: Repository, *, wait: Callable[[float], None] = wait_seconds) -> None:
        """Optimize this graph."""
        self._repo = repo
        self._wait = wait

    def bytes(self, base: GraphVersion) -> int:
        """Roughly how many bytes an optimisation would read, for the choice of the engine."""
        return sum(job.bytes for job in self._jobs(base, tuning.active.file_rows_max))

    def optimize(
        self,
        base: GraphVersion,
        runner: Runner,
        monitor: Monitor,
        *,
        actor: str | None = None,
        message: str | None = None,
        target_rows: int | None = None,
    ) -> Optimized:
        """Compact, build missing indexes, fold new fragments in; one commit, or none.

        Args:
            base: The newest state of the branch whose tables are meant, as the caller pinned it.
            runner: What does the work.
            monitor: Receives the progress, and may stop it.
            actor: On whose behalf.
            message: What the commit is about.
            target_rows: How many rows a full fragment has; by default as many as loads write.

        Raises:
            StopRequested: The call was cancelled.
            Conflict: Others wrote to the same tables, again and again.
        """
        kept: _Kept = {}
        full = target_rows or tuning.active.file_rows_max

        def attempt(_: int, is_stale: bool) -> Optimized:
            now = self._repo.snapshot(base.branch) if is_stale else base
            monitor.stage("plan")
            jobs = self._jobs(now, full)
            self._do([job for job in jobs if job.plan], kept, runner, monitor, full)
            commit = self._repo.new_commit(now, WriterKind.OPTIMIZE)
            commit = replace(commit, actor=actor, message=message)
            return self._publish(now, commit, jobs, kept, monitor)

        with telemetry.span("optimize", branch=base.branch):
            return with_retries(
                attempt,
                root=self._repo.root.uri,
                branch=base.branch,
                policy=self._repo.retry.for_long_work,
                name="optimize",
                wait=self._wait,
                takes_turns=False,
            )

    def _jobs(self, base: GraphVersion, target_rows: int) -> list[Job]:
        catalog = self._repo.schema(base).catalog
        jobs = []
        with self._repo.preparing(base):
            for entity in (*catalog.nodes, *catalog.edges):
                pin = base.pin(table_key(entity.kind, entity.name))
                if base.branch == MAIN or is_fork_of(pin, base.incarnation):
                    table = self._repo.table(pin)
                    jobs.append(plan_job(entity, pin, table, target_rows=target_rows))
        return jobs

    def _do(
        self, jobs: Iterable[Job], kept: _Kept, runner: Runner, monitor: Monitor, target_rows: int
    ) -> None:
        """Write everything beside the tables, as far as that was not done before."""
        todo = [job for job in jobs if (job.pin, job.plan) not in kept]
        tables = self._repo.tables
        at = WorkerTables(
            self._repo.root,
            durable=tables.is_durable,
            tables=None if runner.is_remote else tables,
        )
        maintenance = tables.maintenance
        rewrites = [job.rewrites(at, target_rows) for job in todo]
        rewritten = _run(runner, monitor, "compact", rewrite, rewrites)
        with ExitStack() as drafts:
            drafted: list[Draft | None] = []
            for job, receipts in zip(todo, rewritten, strict=True):
                draft = None
                if receipts:
                    uuid = self._repo.ids.new()
                    with storage_errors():
                        draft = maintenance.draft(job.table, job.plan, receipts, uuid=uuid)
                    drafts.callback(maintenance.drop, draft)
                drafted.append(draft)
            tasks = [list(job.builds(at, draft)) for job, draft in zip(todo, drafted, strict=True)]
            segments = _run(runner, monitor, "index", build, tasks)
        for job, draft, receipts, pieces in zip(todo, drafted, rewritten, segments, strict=True):
            kept[job.pin, job.plan] = Done(
                draft=draft, rewritten=tuple(receipts), segments=tuple(pieces)
            )

    def _publish(
        self,
        base: GraphVersion,
        commit: CommitRecord,
        jobs: Sequence[Job],
        kept: _Kept,
        monitor: Monitor,
    ) -> Optimized:
        done = {job.pin: kept.get((job.pin, job.plan)) for job in jobs}
        tables = tuple(report(job, done[job.pin]) for job in jobs)
        published = None
        work = [(job, each) for job in jobs if (each := done[job.pin]) is not None]
        if work:
            monitor.stage("commit")
            with self._repo.preparing(base):
                maintenance, new_uuid = self._repo.tables.maintenance, self._repo.ids.new
                writes = tuple(staged(job, each, maintenance, new_uuid) for job, each in work)
            published = self._repo.commit(Prepared(base=base, commit=commit, tables=writes))
        return Optimized(
            published=published,
            tables=tables,
            pending=tuple(item for job in jobs for item in job.pending),
        )


def _run(
    runner: Runner,
    monitor: Monitor,
    stage: str,
    task: Callable[[Task], Result],
    items: Sequence[Sequence[Task]],
) -> list[list[Result]]:
    """Run the tasks of several tables at once; return their results table by table."""
    flat = [item for of_table in items for item in of_table]
    results: dict[int, Result] = {}
    if flat:
        monitor.stage(stage, len(flat))
        for number, result in runner.run(stage, task, flat):
            results[number] = result
            monitor.add(tasks=1, rows=flat[number].rows)
            monitor.check()
    ordered = iter([results[number] for number in range(len(flat))])
    return [[next(ordered) for _ in of_table] for of_table in items]
