"""Deletes of one query: the entities, their edges, and the rules about what is left."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.layout import table_key
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.mutate.committed import CommittedRows, without_repeats
from omnigraph.exec.mutate.delta import MutationDelta, TypeDelta
from omnigraph.exec.mutate.judge import judge_degrees
from omnigraph.lang.catalog.model import Catalog, EdgeType
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Cascade, DeleteOp
from omnigraph.rules.violation import Violations


class Deletes:
    """The deletes of one query. A statement that finds what an earlier one found counts it once."""

    def __init__(self, catalog: Catalog, committed: Callable[[EntityRef], CommittedRows]) -> None:
        """Delete from these committed rows."""
        self._catalog = catalog
        self._committed = committed
        self._found: dict[EntityRef, list[pa.Table]] = {}
        self._judged: set[str] = set()
        self._cascades: dict[Cascade, list[str]] = {}

    def delete(self, op: DeleteOp, context: EvalContext) -> None:
        """Find what a statement deletes."""
        rows = self._committed(op.entity).matching(op.where, op.reads, _columns(op.entity), context)
        if not rows.num_rows:
            return
        self._found.setdefault(op.entity, []).append(rows)
        ids = rows.column("id").to_pylist()
        for cascade in op.cascades:
            self._cascades.setdefault(cascade, []).extend(ids)
            # An edge that somebody adds meanwhile would dangle: the type must not have changed.
            self._judged.add(cascade.edge.table_key)

    def _cascade(self) -> None:
        """Find the edges that hang on what is deleted, for all statements at once."""
        for cascade, ids in self._cascades.items():
            ends = {"src": cascade.source, "dst": cascade.target}
            wanted = {column: ids for column, named in ends.items() if named}
            edges = self._committed(cascade.edge).having(wanted, _columns(cascade.edge))
            self._found.setdefault(cascade.edge, []).append(edges)

    def finish(self, out: Violations) -> MutationDelta:
        """Judge what is left over."""
        self._cascade()
        removed = {ref: without_repeats(parts) for ref, parts in self._found.items()}
        for ref, rows in removed.items():
            if ref.kind == "edge" and rows.num_rows:
                self._judge(self._catalog.edge_by_name[ref.name], ref, removed, out)
        deltas = tuple(
            TypeDelta(committed=self._committed(ref), removed=rows) for ref, rows in removed.items()
        )
        return MutationDelta(deltas=deltas, judged=frozenset(self._judged))

    def _judge(
        self,
        edge: EdgeType,
        ref: EntityRef,
        removed: dict[EntityRef, pa.Table],
        out: Violations,
    ) -> None:
        """Sources that stay may have too few edges now; they cannot have too many."""
        if not edge.cardinality.low:
            return
        rows = removed[ref]
        sources = pc.unique(rows.column("src"))
        key = table_key("node", edge.source)
        for other, gone in removed.items():
            if other.table_key == key:
                sources = sources.filter(pc.invert(_in(sources, gone.column("id"))))
        judge_degrees(edge, self._committed(ref), sources, out, without=rows.column("id"))


def _in(values: pa.Array, known: pa.ChunkedArray) -> pa.Array:
    return pc.is_in(values, value_set=known.combine_chunks())


def columns_read(op: DeleteOp) -> list[str]:
    """The columns that a statement needs of what it deletes."""
    return [*_columns(op.entity), *(item.name for item in op.reads)]


def _columns(entity: EntityRef) -> list[str]:
    return ["id"] if entity.kind == "node" else ["id", "src"]
