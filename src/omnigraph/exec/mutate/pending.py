"""Changes that are not committed yet: what the statements of a query, or of several, have made.

All of them are judged together at the end, on the last images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from omnigraph.embed.missing import summed
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.mutate.committed import CommittedRows
from omnigraph.exec.mutate.delta import MutationDelta, TypeDelta
from omnigraph.exec.mutate.embedding import QueryEmbeddings
from omnigraph.exec.mutate.judge import TypeImages, judge_changes, judge_readable
from omnigraph.exec.mutate.type_changes import TypeChanges, columns_deleted
from omnigraph.exec.prefilter import fixed_ids
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Cascade, DeleteOp, InsertOp, UpdateOp
from omnigraph.rules.violation import Violations
from omnigraph.runtime import cancellation
from omnigraph.runtime.ids import Ids


class PendingChanges:
    """The changes of some queries, one on top of the other, on one base."""

    def __init__(
        self,
        committed: Callable[[EntityRef], CommittedRows],
        embeddings: QueryEmbeddings,
        ids: Ids,
    ) -> None:
        """Build on these committed rows."""
        self._committed = committed
        self._embeddings = embeddings
        self._ids = ids
        self._types: dict[EntityRef, TypeChanges] = {}
        self._ends: dict[EntityRef, tuple[EntityRef, EntityRef]] = {}
        self._cascades: dict[Cascade, list[str]] = {}  # of the query that is going on
        self._judged: set[str] = set()

    def run(
        self, ops: Iterable[InsertOp | UpdateOp | DeleteOp], context: EvalContext
    ) -> dict[EntityRef, int]:
        """Carry out the statements of a query; returns how many entities of each type it touched.

        When it fails, some of the statements are carried out and others are not.
        """
        statements = tuple(ops)
        self._announce(statements, context)
        for op in statements:
            cancellation.check()
            self._apply(op, context)
        # Edges that hang on what is deleted go with the query, for all statements at once.
        for cascade, ids in self._cascades.items():
            ends = {"src": cascade.source, "dst": cascade.target}
            wanted = {column: ids for column, named in ends.items() if named}
            self.changes_of(cascade.edge).delete_at_ends(wanted)
        self._cascades = {}
        touched = {ref: changes.end_query() for ref, changes in self._types.items()}
        return {ref: count for ref, count in touched.items() if count}

    def _announce(
        self, ops: Iterable[InsertOp | UpdateOp | DeleteOp], context: EvalContext
    ) -> None:
        """Note which entities the statements name, so that those of a type are read together."""
        for changes in self._types.values():
            changes.committed.expect_nothing()
        for op in ops:
            if isinstance(op, InsertOp):
                continue
            committed = self._committed(op.entity)
            ids = fixed_ids(op.where, committed.entity, context)
            if ids is not None:
                deletes = isinstance(op, DeleteOp)
                read = [*columns_deleted(op.entity.kind), *(item.name for item in op.reads)]
                committed.expect(ids, read if deletes else None)

    def _apply(self, op: InsertOp | UpdateOp | DeleteOp, context: EvalContext) -> None:
        changes = self.changes_of(op.entity)
        match op:
            case UpdateOp():
                changes.update(op, context)
            case InsertOp():
                changes.insert(op, context)
                if op.ends is not None:
                    self.note_ends(op.entity, *op.ends)
            case DeleteOp():
                ids = changes.delete(op, context)
                if not len(ids):
                    return
                for cascade in op.cascades:
                    self._cascades.setdefault(cascade, []).extend(ids.to_pylist())
                    # An edge that is added meanwhile would dangle: the type must not change.
                    self._judged.add(cascade.edge.table_key)

    def note_ends(self, ref: EntityRef, source: EntityRef, target: EntityRef) -> None:
        """Remember which nodes the edges of a type need."""
        self._ends[ref] = (source, target)

    def changes_of(self, ref: EntityRef) -> TypeChanges:
        """The changes of one type."""
        found = self._types.get(ref)
        if found is None:
            found = TypeChanges(self._committed(ref), self._embeddings, self._ids)
            self._types[ref] = found
        return found

    # -- the outcome -------------------------------------------------------------------------------

    def outcome(self) -> MutationDelta:
        """The changes as they stand, judged by all rules of the schema.

        Raises:
            ConstraintViolated: They break rules; it lists all of them.
        """
        out = Violations()
        images = self._images()
        judged = judge_changes(images, self._ends, self._committed, out)
        out.raise_if_any()
        missing = summed(
            item
            for ref, changes in self._types.items()
            for item in changes.vectors.missing(ref.table_key, images[ref].rows)
        )
        return MutationDelta(
            deltas=self._deltas(images), judged=judged.union(self._judged), missing=missing
        )

    def readable(self) -> tuple[TypeDelta, ...]:
        """The changes as they stand, judged as far as a reader depends on it.

        Raises:
            ConstraintViolated: A required value or the node at an end of an edge is missing.
        """
        out = Violations()
        images = self._images()
        judge_readable(images, self._ends, self._committed, out)
        out.raise_if_any()
        return self._deltas(images)

    def _images(self) -> dict[EntityRef, TypeImages]:
        return {
            ref: TypeImages(
                committed=changes.committed,
                rows=changes.images(),
                removed=changes.removed(),
                inserted=frozenset(changes.inserted),
                assigned=frozenset(changes.assigned),
                left=frozenset(changes.left),
            )
            for ref, changes in self._types.items()
        }

    @staticmethod
    def _deltas(images: dict[EntityRef, TypeImages]) -> tuple[TypeDelta, ...]:
        return tuple(
            TypeDelta(
                committed=item.committed,
                images=item.rows if item.rows.num_rows else None,
                removed=_gone(item),
            )
            for item in images.values()
        )


def _gone(item: TypeImages) -> pa.Table | None:
    """The rows that are deleted, without those of entities that were inserted again."""
    rows = item.gone()
    return rows if rows.num_rows else None
