"""Inserting and updating: new images of entities, judged together when all are made."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.embed.missing import summed
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.mutate.committed import Committed
from omnigraph.exec.mutate.delta import Delta, Outcome
from omnigraph.exec.mutate.draft import Draft
from omnigraph.exec.mutate.embedding import Embeddings
from omnigraph.exec.mutate.judge import Images, judge_images
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import InsertOp, UpdateOp
from omnigraph.rules.violation import Violations
from omnigraph.runtime.ids import Ids


class Build:
    """The inserts and updates of one query."""

    def __init__(
        self, committed: Callable[[EntityRef], Committed], embeddings: Embeddings, ids: Ids
    ) -> None:
        """Build on these committed rows."""
        self._committed = committed
        self._embeddings = embeddings
        self._ids = ids
        self._drafts: dict[EntityRef, Draft] = {}
        self._ends: dict[EntityRef, tuple[EntityRef, EntityRef]] = {}

    def apply(self, op: InsertOp | UpdateOp, context: EvalContext) -> None:
        """Carry out one statement, on top of the earlier ones."""
        draft = self._drafts.get(op.entity)
        if draft is None:
            draft = Draft(self._committed(op.entity), self._embeddings, self._ids)
            self._drafts[op.entity] = draft
        if isinstance(op, UpdateOp):
            draft.update(op, context)
            return
        draft.insert(op, context)
        if op.ends is not None:
            self._ends[op.entity] = op.ends

    def finish(self, out: Violations) -> Outcome:
        """Judge the last images."""
        images = {
            ref: Images(
                committed=draft.committed,
                rows=draft.finish(),
                inserted=frozenset(draft.inserted),
                assigned=frozenset(draft.assigned),
            )
            for ref, draft in self._drafts.items()
        }
        judged = judge_images(images, self._ends, self._committed, out)
        deltas = tuple(
            Delta(committed=item.committed, images=item.rows) for item in images.values()
        )
        missing = summed(
            item
            for ref, draft in self._drafts.items()
            for item in draft.vectors.missing(ref.table_key, images[ref].rows)
        )
        return Outcome(deltas=deltas, judged=judged, missing=missing)
