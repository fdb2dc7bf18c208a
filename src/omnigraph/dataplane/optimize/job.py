"""One table of an optimisation: what it needs, its tasks, and what was done about it.

A task knows a table, and no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.core.commits.graph_version import TablePin
from omnigraph.core.layout import table_key
from omnigraph.core.maintenance.indices import PendingIndex, fitting_indexes, not_yet
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import TableWrite
from omnigraph.dataplane.optimize.model import OptimizedTable
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.lang.catalog.model import EntityType
from omnigraph.store.maintenance.plan import MaintenancePlan, plan_maintenance
from omnigraph.store.maintenance.shape import Shape, TableProbe, read_shape
from omnigraph.store.maintenance.tasks import Draft, Maintenance
from omnigraph.store.model import IndexSpec, Pin, RewriteReceipt, SegmentReceipt
from omnigraph.store.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Fragments of one table to write together."""

    worker_tables: WorkerTables
    pin: Pin
    fragments: tuple[int, ...]
    target_rows: int
    rows: int  # how many that are, for the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """A piece of an index to build; `pin` may be a draft."""

    worker_tables: WorkerTables
    pin: Pin
    spec: IndexSpec
    fragments: frozenset[int]
    rows: int  # how many that are, for the progress


def rewrite(task: RewriteTask) -> RewriteReceipt:
    """Write fragments together."""
    with storage_errors():
        tables = task.worker_tables.tables
        return tables.maintenance.rewrite(
            tables.open(task.pin), task.fragments, target_rows=task.target_rows
        )


def build(task: IndexTask) -> SegmentReceipt:
    """Build a piece of an index."""
    with storage_errors():
        return task.worker_tables.tables.maintenance.build(task.pin, task.spec, task.fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A table and what it needs. Nothing has been written yet."""

    pin: TablePin
    table: Table
    shape: Shape
    plan: MaintenancePlan
    pending: tuple[PendingIndex, ...]

    @property
    def bytes(self) -> int:
        """The number of bytes that are read for it, at most."""
        touched = {fragment for group in self.plan.groups for fragment in group}
        touched.update(*(part for build in self.plan.indexes for part in build.parts))
        return sum(each.bytes for each in self.shape.fragments if each.id in touched)

    def rewrites(self, worker_tables: WorkerTables, target_rows: int) -> list[RewriteTask]:
        """A task for each group of fragments."""
        rows = self._rows()
        return [
            RewriteTask(
                worker_tables=worker_tables,
                pin=self.table.pin,
                fragments=group,
                target_rows=target_rows,
                rows=sum(rows[fragment] for fragment in group),
            )
            for group in self.plan.groups
        ]

    def builds(self, worker_tables: WorkerTables, draft: Draft | None) -> Iterator[IndexTask]:
        """A task for each piece of an index; on a draft where fragments were rewritten."""
        rows = self._rows()
        for build in self.plan.indexes:
            for part in build.parts:
                yield IndexTask(
                    worker_tables=worker_tables,
                    pin=self.table.pin if draft is None else draft.pin,
                    spec=build.spec,
                    fragments=part if draft is None else draft.stands_for(part),
                    rows=sum(rows[fragment] for fragment in part),
                )

    def _rows(self) -> dict[int, int]:
        return {fragment.id: fragment.rows for fragment in self.shape.fragments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The files that were written beside a table. No head has moved."""

    draft: Draft | None = None
    rewritten: tuple[RewriteReceipt, ...] = ()
    segments: tuple[SegmentReceipt, ...] = ()


def plan_job(entity: EntityType, pin: TablePin, table: Table, *, target_rows: int) -> Job:
    """Look at a table."""
    shape = read_shape(table)
    known = {segment.index for segment in shape.segments}
    specs = []
    pending = []
    existing = ((segment.index, segment.columns) for segment in shape.segments)
    for spec in fitting_indexes(entity, existing):
        reason = None if spec.name in known else not_yet(table, spec)
        if reason is None:
            specs.append(spec)
        else:
            key = table_key(entity.kind, entity.name)
            pending.append(PendingIndex(table_key=key, column=spec.column, reason=reason))
    plan = plan_maintenance(shape, specs, TableProbe(table), target_rows=target_rows)
    return Job(pin=pin, table=table, shape=shape, plan=plan, pending=tuple(pending))


def staged(
    job: Job, done: Done, maintenance: Maintenance, new_uuid: Callable[[], str]
) -> TableWrite:
    """The commits that put to use what was done."""
    chain = maintenance.stage(
        job.table, job.plan, done.draft, done.rewritten, done.segments, new_uuid=new_uuid
    )
    return TableWrite(table_key=job.pin.table_key, staged=chain)


def report(job: Job, done: Done | None) -> OptimizedTable:
    """The result for one table."""
    before = len(job.shape.fragments)
    made = {} if done is None or done.draft is None else done.draft.fragments
    change = sum(len(new) - len(group) for group, new in made.items())
    built = tuple(build.spec.name for build in job.plan.indexes if build.is_missing)
    folded = tuple(build.spec.name for build in job.plan.indexes if not build.is_missing)
    return OptimizedTable(
        table_key=job.pin.table_key,
        fragments_before=before,
        fragments_after=before + change,
        built=built,
        folded=folded,
    )
