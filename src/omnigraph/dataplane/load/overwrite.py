"""The effect of an overwrite on edges that it does not replace.

When a node type is replaced, edges of other types may lose an end. They are violations, or they go,
too: then the sources that stay have fewer edges than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.committed import ColumnRequest, Committed, LoadBase
from omnigraph.dataplane.load.deletions import DeletionSpill, Shares
from omnigraph.dataplane.load.exchange import (
    ID,
    KEY,
    LINE,
    Emitter,
    Partition,
    SentKeys,
    claims_channel,
    fetched,
    ids_channel,
    left_channel,
    texts_of,
)
from omnigraph.dataplane.load.judge_nodes import ends_of
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.receipt import OrphanReceipt
from omnigraph.dataplane.load.violations import collector
from omnigraph.lang.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.rules.endpoints import report_dangling
from omnigraph.rules.report import gathered, joined
from omnigraph.rules.violation import Violations
from omnigraph.store.table import ROW_ADDRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanTask:
    """Partitions of nodes that are replaced, whose retained edges are looked at."""

    plan: LoadPlan
    base: LoadBase
    partitions: tuple[tuple[SentKeys, ...], ...]
    is_divided: bool
    shares: Shares
    cascade: bool


def retained(
    catalog: Catalog, base: LoadBase
) -> Iterator[tuple[NodeType, EdgeType, str, tuple[str, ...]]]:
    """The ends of edges that stay at nodes that are replaced, and what to read there."""
    for node in catalog.nodes:
        if key_of(node) not in base.replaced:
            continue
        for edge, end in ends_of(catalog, node):
            key = key_of(edge)
            if key not in base.replaced and base.tables[key].rows:
                extra = ("src",) if end == "dst" else ()
                yield node, edge, end, (end, ID, ROW_ADDRESS, *extra)


def retained_requests(catalog: Catalog, base: LoadBase) -> list[ColumnRequest]:
    """The committed rows that partitions need for this."""
    return [
        ColumnRequest(key=key_of(edge), columns=columns)
        for _, edge, _, columns in retained(catalog, base)
    ]


def find_orphans(task: OrphanTask) -> OrphanReceipt:
    """Find edges that lose an end. A task of a load."""
    plan = task.plan
    out = collector(plan)
    emitter = Emitter(plan.staging, plan.partitions)
    graves = DeletionSpill(plan.staging, task.shares)
    with plan.worker_tables.errors():
        for partition in fetched(plan.staging, task.partitions):
            plan.stop.check()
            committed = Committed(plan, task.base, partition if task.is_divided else None)
            for node, edge, end, columns in retained(plan.catalog, task.base):
                for lost in _lost(node, edge, columns, partition, committed):
                    if not task.cascade:
                        _report(edge, end, lost, out)
                        continue
                    graves.add(key_of(edge), lost.column(ROW_ADDRESS).to_numpy())
                    if end == "dst" and edge.cardinality.low:
                        emitter.add(left_channel(edge.name), _left(lost))
        staged_parts, dead = emitter.close(), graves.close()
    return OrphanReceipt(violations=out.settled(), dead=dead, staged_parts=staged_parts)


def _lost(
    node: NodeType,
    edge: EdgeType,
    columns: tuple[str, ...],
    partition: Partition,
    committed: Committed,
) -> Iterator[pa.Table]:
    """The edges whose end, the first of the columns, is not there any more."""
    channels = (ids_channel(key_of(node)), claims_channel(key_of(node)))
    ids = texts_of(table for channel in channels for table in partition.tables(channel))
    stored = committed.among(key_of(edge), columns)
    for tables in gathered(stored, max(len(ids), tuning.active.gathered_rows)):
        rows = pa.concat_tables(tables)
        lost = rows.filter(pc.invert(pc.is_in(rows.column(0), value_set=ids)))
        if lost.num_rows:
            yield lost


def _report(edge: EdgeType, end: str, lost: pa.Table, out: Violations) -> None:
    rows = np.arange(lost.num_rows)
    report_dangling(edge, end, joined(lost.column(end)), rows, out, ids=joined(lost.column(ID)))


def _left(lost: pa.Table) -> pa.Table:
    return pa.table({KEY: lost.column("src"), LINE: pa.nulls(lost.num_rows, pa.int64())})
