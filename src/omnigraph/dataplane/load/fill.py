"""Computing vectors of entities that are there already, in batches of one commit each.

The rows of a batch are found in one pinned state, and their texts are embedded without hurry. Then
they are merged into the newest state like rows of any load; an entity whose text has changed
meanwhile, or that has a vector now, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.schema.named_types import chosen_types
from omnigraph.dataplane.counts import Counts
from omnigraph.dataplane.decode.model import Decoded, DecodeStats
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.read_task import stage_rows
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.request import Fill, Loaded, LoadRequest
from omnigraph.dataplane.load.vectors import embedded
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.source.model import FrameInput, PackPiece, TypeRef
from omnigraph.embed.provider import PROVIDER_VARIABLE, no_provider
from omnigraph.embed.refused import naming_entity
from omnigraph.embed.source import Embeddings
from omnigraph.lang.catalog.model import Catalog, Embed, EntityType, Property
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.rules.report import joined
from omnigraph.store.table import ROW_ID, Table, quoted
from omnigraph.store.tables import Pin
from omnigraph.types import BranchName

TASK_ENTITIES = 4096
_SCAN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRequest:
    """The vectors to compute.

    Attributes:
        branch: Where.
        fill: Those that are null, or all.
        types: Only of these types; None for every one that has such vectors.
        batch: How many entities one commit changes; None: as many as the tasks can take.
        actor: On whose behalf.
        message: What its commits are about.
    """

    branch: BranchName
    fill: Fill
    types: Sequence[str] | None = None
    batch: int | None = None
    actor: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The vectors that were computed.

    Attributes:
        commit: The last commit; None if there was nothing to do.
        commits: How many there are.
        vectors: How many vectors were computed, by `node:Type.property`.
        skipped: How many entities had changed meanwhile.
    """

    commit: CommitRecord | None
    commits: int
    vectors: Mapping[str, int]
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTask:
    """Entities whose texts are to be embedded. Picklable."""

    plan: LoadPlan
    split: int
    pin: Pin
    entity: EntityType
    target: Property
    embed: Embed
    row_ids: bytes


def embed_split(task: FillTask) -> ReadReceipt:
    """Read texts and embed them; the rows wait to be merged. A task of a load."""
    plan, entity = task.plan, task.entity
    with plan.worker_tables.errors():
        table = plan.worker_tables.tables.open(task.pin)
        names = list(dict.fromkeys([ID_NAME, *entity.key, task.embed.source]))
        found = table.take(np.frombuffer(task.row_ids, np.uint64).tolist(), names)
        texts = joined(found.column(task.embed.source)).to_pylist()
        ids = joined(found.column(ID_NAME))
        source, target = task.embed.source, task.target
        with naming_entity(entity.name, target.name, source, lambda at: ids[at].as_py()):
            vectors = plan.embeddings.embed_rows(texts, target.type.dim, task.embed.model)
        decoded = _decoded(entity, task.target.name, found, vectors.reshape(-1))
        stats = DecodeStats(lines=len(texts), bytes=found.nbytes, rows=len(texts))
        files = (PackPiece(name=key_of(entity), first_row=None, lines=stats.lines),)
        return stage_rows(plan, task.split, iter([decoded]), stats, lambda: files)


def _decoded(entity: EntityType, target: str, found: pa.Table, vectors: np.ndarray) -> Decoded:
    """Rows that name what was read and the vector, and nothing else."""
    count = found.num_rows
    fields = [field.with_nullable(True) for field in table_schema(entity)]
    columns: list[pa.Array] = []
    absent: dict[str, pa.BooleanArray] = {}
    for field in fields:
        if field.name == target:
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors), type=field.type))
        elif field.name in found.schema.names:
            columns.append(joined(found.column(field.name)).cast(field.type))
        else:
            columns.append(pa.nulls(count, field.type))
            if field.name in entity.property_by_name:
                absent[field.name] = pa.repeat(True, count)
    rows = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    return Decoded(entity=entity, rows=rows, lines=np.arange(1, count + 1), absent=absent)


class VectorFiller:
    """Computes vectors of one graph."""

    def __init__(self, repo: Repository, embeddings: Embeddings) -> None:
        """Work on this graph, and ask this provider."""
        self._repo = repo
        self._embeddings = embeddings
        self._loader = Loader(repo, embeddings)

    def bytes(self, request: FillRequest) -> int:
        """Roughly how many bytes may have to be read, for the choice of the engine."""
        base = self._repo.snapshot(request.branch)
        keys = {key_of(entity) for entity, _, _ in self._targets(request)}
        pins = [base.pin(key) for key in keys]
        return sum(self._repo.table(pin).data_bytes for pin in pins if pin.row_count)

    def fill(self, request: FillRequest, runner: Runner, monitor: Monitor) -> Filled:
        """Compute vectors, batch by batch; what is committed stays when a later batch fails.

        Raises:
            InvalidInput: No provider is configured, or it has another model than the schema says.
            Unavailable: The provider did not answer.
            StopRequested: The call was cancelled.
        """
        size = request.batch or TASK_ENTITIES * (runner.parallelism if runner.is_remote else 1)
        vectors: dict[str, int] = {}
        last: Loaded | None = None
        commits = skipped = 0
        for entity, target, embed in self._targets(request):
            name = f"{key_of(entity)}.{target.name}"
            for row_ids, pin in self._batches(request, entity, target, embed, size):
                if not self._embeddings.has_provider:
                    raise no_provider(f"set {PROVIDER_VARIABLE}, or give the graph an embedder")
                monitor.stage("embed")
                last = self._batch(request, (entity, target, embed), row_ids, pin, runner, monitor)
                commits += 1
                done = last.counts.get(key_of(entity), Counts()).updated
                vectors[name] = vectors.get(name, 0) + done
                skipped += len(row_ids) - done
                monitor.check()
        return Filled(
            commit=None if last is None else last.commit,
            commits=commits,
            vectors=vectors,
            skipped=skipped,
        )

    def _targets(self, request: FillRequest) -> list[tuple[EntityType, Property, Embed]]:
        catalog = self._catalog(request.branch)
        return [
            (entity, target, embed)
            for entity in chosen_types(catalog, request.types)
            for target, embed in embedded(entity)
        ]

    def _catalog(self, branch: BranchName) -> Catalog:
        return self._repo.schema(self._repo.snapshot(branch)).catalog

    def _batches(
        self, request: FillRequest, entity: EntityType, target: Property, embed: Embed, size: int
    ) -> Iterator[tuple[list[int], Pin]]:
        """The rows to be filled as of now, so many at a time, and the table that has them."""
        base = self._repo.snapshot(request.branch)
        pin = base.pin(key_of(entity))
        if not pin.row_count:
            return
        table = self._repo.table(pin)
        waiting: list[int] = []
        with self._repo.preparing(base):
            reader = iter(_scan(table, target, embed, request.fill))
        while True:
            with self._repo.preparing(base):
                batch = next(reader, None)
            waiting += [] if batch is None else batch.column(ROW_ID).to_pylist()
            while len(waiting) >= size or (batch is None and waiting):
                chosen, waiting = waiting[:size], waiting[size:]
                yield chosen, pin.store_pin
            if batch is None:
                return

    def _batch(
        self,
        request: FillRequest,
        what: tuple[EntityType, Property, Embed],
        row_ids: Sequence[int],
        pin: Pin,
        runner: Runner,
        monitor: Monitor,
    ) -> Loaded:
        entity, target, embed = what
        ref = TypeRef(kind="node", name=entity.name)
        load = LoadRequest(
            inputs=(FrameInput(name=key_of(entity), type=ref, frame=None),),
            catalog=self._catalog(request.branch),
            mode="merge",
            branch=request.branch,
            actor=request.actor,
            message=request.message,
            partitions=1,
            fill=request.fill,
        )
        base = self._repo.snapshot(request.branch)
        plan = self._loader.plan(load, base, monitor, is_remote=runner.is_remote)
        # In one process one task is enough: its requests run side by side.
        parts = runner.parallelism if runner.is_remote else 1
        step = -(-len(row_ids) // parts)
        tasks = [
            FillTask(
                plan=plan,
                split=number,
                pin=pin,
                entity=entity,
                target=target,
                embed=embed,
                row_ids=np.array(row_ids[start : start + step], np.uint64).tobytes(),
            )
            for number, start in enumerate(range(0, len(row_ids), step))
        ]
        try:
            with self._repo.preparing(base):
                receipts = [found for _, found in runner.run("embed", embed_split, tasks)]
            monitor.add(rows=len(row_ids), bytes=sum(found.bytes for found in receipts))
            done = self._loader.finish(load, plan, receipts, runner, monitor, base)
        except BaseException as error:
            monitor.stop()
            self._loader.end(plan, error)
            raise
        self._loader.end(plan, done)
        return done


def _scan(table: Table, target: Property, embed: Embed, fill: Fill) -> pa.RecordBatchReader:
    condition = f"{quoted(embed.source)} IS NOT NULL"
    if fill is Fill.MISSING:
        condition = f"{quoted(target.name)} IS NULL AND {condition}"
    return table.scan([ID_NAME], filter=condition, row_id=True, batch_rows=_SCAN_ROWS)
