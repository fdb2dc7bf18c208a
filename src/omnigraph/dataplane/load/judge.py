"""Judging a partition: every rule that is about more than one entity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.dataplane.load.committed import Committed, LoadBase
from omnigraph.dataplane.load.exchange import (
    ID,
    Partition,
    SentKeys,
    fetched,
    ids_channel,
    released_channel,
    values_channel,
)
from omnigraph.dataplane.load.judge_nodes import judge_ids, judge_nodes
from omnigraph.dataplane.load.packing import numbered, unpacked
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.receipt import JudgeReceipt
from omnigraph.dataplane.load.violations import collector
from omnigraph.lang.catalog.model import EdgeType, EntityType
from omnigraph.rules.unique import judge_unique, uniques
from omnigraph.rules.violation import Violations


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    """Partitions to judge.

    Attributes:
        plan: The load.
        base: What it is judged against.
        partitions: What was sent to each.
        is_divided: Committed rows were sent, too; otherwise they are read where they are needed.
    """

    plan: LoadPlan
    base: LoadBase
    partitions: tuple[tuple[SentKeys, ...], ...]
    is_divided: bool


def judge_partitions(task: JudgeTask) -> JudgeReceipt:
    """Judge partitions. A task of a load."""
    plan = task.plan
    out = collector(plan)
    with plan.worker_tables.errors():
        for partition in fetched(plan.staging, task.partitions):
            plan.stop.check()
            committed = Committed(plan, task.base, partition if task.is_divided else None)
            _judge(plan, partition, committed, out)
    return JudgeReceipt(violations=out.settled())


def _judge(plan: LoadPlan, partition: Partition, committed: Committed, out: Violations) -> None:
    for node in plan.catalog.nodes:
        judge_nodes(plan, node, partition, committed, out)
    for edge in plan.catalog.edges:
        _judge_edge_ids(plan, edge, partition, committed, out)
    for entity in (*plan.catalog.nodes, *plan.catalog.edges):
        for columns in uniques(entity):
            _judge_values(entity, columns, partition, committed, out)


def _judge_edge_ids(
    plan: LoadPlan,
    edge: EdgeType,
    partition: Partition,
    committed: Committed,
    out: Violations,
) -> None:
    ids = partition.keys(ids_channel(key_of(edge)))
    if not ids.count or plan.is_matched(edge):
        return
    numbers, distinct = numbered(ids.chunks)
    stored = None
    key = key_of(edge)
    if plan.mode == "append" and committed.rows(key):
        stored = committed.found(key, ID, unpacked(distinct))
    judge_ids(plan, edge, ids, np.concatenate(numbers), stored, out)


def _judge_values(
    entity: EntityType,
    columns: tuple[str, ...],
    partition: Partition,
    committed: Committed,
    out: Violations,
) -> None:
    key = key_of(entity)
    keys = partition.keys(values_channel(key, columns))
    if not keys.count:
        return
    incoming = pa.concat_tables(keys.tables, promote_options="permissive").combine_chunks()
    released = [t.column(ID) for t in partition.tables(released_channel(key, columns))]
    gone = pa.chunked_array([c for column in released for c in column.chunks], pa.string())
    stored = () if committed.is_replaced(key) else _stored(entity, columns, incoming, committed)
    judge_unique(
        entity,
        columns,
        incoming,
        out,
        committed=stored,
        removed=gone,
        # The new image of an entity need not be in the partition of its old value.
        replaces=False,
        origin=keys.origin,
    )


def _stored(
    entity: EntityType, columns: tuple[str, ...], incoming: pa.Table, committed: Committed
) -> Iterator[pa.RecordBatch]:
    key = key_of(entity)
    wanted = incoming.column(columns[0]).chunk(0).unique()
    return (
        batch
        for rows in committed.among(key, [*columns, ID], wanted)
        for batch in rows.to_batches()
    )
