"""Inserts and updates of one query: the new images of the entities that it touches.

Statements read what the earlier ones left: committed rows, with the images of this query in the
place of the entities that it has touched already. Of each entity only the last image counts, and
all of them are judged together at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embed.missing import summed
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.mutate.committed import PLACES, CommittedRows
from omnigraph.exec.mutate.delta import MutationDelta, TypeDelta
from omnigraph.exec.mutate.embedding import Pair, QueryEmbeddings, VectorsOfType
from omnigraph.exec.mutate.images import ImageTable
from omnigraph.exec.mutate.judge import TypeImages, judge_images
from omnigraph.exec.mutate.values import Stored, given
from omnigraph.exec.prefilter import fixed_ids
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import EmbedSpec, InsertOp, UpdateOp
from omnigraph.rules.identity import entity_id
from omnigraph.rules.violation import Violations
from omnigraph.runtime.ids import Ids
from omnigraph.store.table import ROW_ID

_Values: TypeAlias = Sequence[tuple[str, Stored]]


class TypeUpserts:
    """The inserts and updates of one type. An image without a place is of a new entity."""

    def __init__(self, committed: CommittedRows, embeddings: QueryEmbeddings, ids: Ids) -> None:
        """Starts without images."""
        self.committed = committed
        self.entity = committed.entity
        self.inserted: set[str] = set()  # ids that an insert gave, new or not
        self.assigned: set[str] = set()  # columns that an update has set
        self.vectors = VectorsOfType(committed.entity, embeddings)
        self._ids = ids
        self._images = ImageTable(committed.schema)
        self._rows: dict[str, dict[str, Stored]] = {}  # inserts since the last look at images
        self._embeds: dict[EmbedSpec, list[dict[str, Stored]]] = {}

    # -- statements --------------------------------------------------------------------------------

    def insert(self, op: InsertOp, context: EvalContext) -> None:
        """Gives an entity an image, whether it exists or not."""
        row: dict[str, Stored] = {item.column.name: given(item, context) for item in op.values}
        name = self._ids.new()
        if not op.key:
            row["id"] = name
        elif all(row[column.name] is not None for column in op.key):
            # Blobs are not part of keys, so these are plain values.
            key = {c.name: v for c in op.key if not isinstance(v := row[c.name], bytes)}
            row["id"] = name = entity_id(self.entity, key)
        # Without its whole key an entity has no id; the rules will say so.
        self.inserted.add(name)
        self._rows[name] = row
        for spec in op.embeds:
            self._embeds.setdefault(spec, []).append(row)
        self.committed.check_rows(len(self._rows) + self._images.count)

    def update(self, op: UpdateOp, context: EvalContext) -> None:
        """Change every entity that meets the predicate, as the statements before left it."""
        values = [(item.column.name, given(item, context)) for item in op.values]
        self._flush()
        ids = fixed_ids(op.where, self.entity, context)
        if ids is not None and self._images.index():
            self._update_named(op, ids, values, context)
        else:
            self._update_all(op, values, context)
        self.assigned.update(name for name, _ in values)
        self.committed.check_rows(self._images.count)

    def _update_named(
        self, op: UpdateOp, ids: Sequence[str], values: _Values, context: EvalContext
    ) -> None:
        """Change some of a few entities."""
        images = self._images.find(ids)
        mine = images.filter(_truth(op, images, context)) if images.num_rows else images
        fresh = self._fresh(op, images, {name for name, _ in values}, context)
        for rows in (mine, fresh):
            if rows.num_rows:
                changed = self._changed(op, rows, values)
                self._images.put(changed.column("id").to_pylist(), changed)

    def _update_all(self, op: UpdateOp, values: _Values, context: EvalContext) -> None:
        """Change whatever meets a condition."""
        images = self._images.whole()
        mine = _truth(op, images, context)
        fresh = self._fresh(op, images, {name for name, _ in values}, context)
        changed = [self._changed(op, rows, values) for rows in (images.filter(mine), fresh)]
        self._images.assign(pa.concat_tables([images.filter(pc.invert(mine)), *changed]))

    def _changed(self, op: UpdateOp, rows: pa.Table, values: _Values) -> pa.Table:
        """Rows with what a statement sets, and the vectors that belong to it."""
        after = self._assigned(rows, values)
        texts = dict(values)
        for spec in op.embeds:
            after = self.vectors.updated(spec, texts[spec.source.name], rows, after)
        return after

    def _assigned(self, rows: pa.Table, values: _Values) -> pa.Table:
        """Rows in which some columns have one value throughout."""
        if not rows.num_rows:
            return rows
        large = sum(len(value) for _, value in values if isinstance(value, bytes | str))
        self.committed.check_bytes(large * rows.num_rows)
        for name, value in values:
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            cells = pa.repeat(pa.scalar(value, field.type), rows.num_rows)
            rows = rows.set_column(place, field, cells)
        return rows

    def _fresh(
        self, op: UpdateOp, images: pa.Table, assigned: Iterable[str], context: EvalContext
    ) -> pa.Table:
        """Committed rows that match and have no image yet, whole but for what is assigned."""
        schema, blobs = self.committed.schema, self.committed.blobs
        columns = [name for name in schema.names if name not in blobs and name not in PLACES]
        rows = self.committed.matching(op.where, op.reads, columns, context)
        if images.num_rows and rows.num_rows:
            known = pc.is_in(rows.column("id"), value_set=images.column("id").combine_chunks())
            rows = rows.filter(pc.invert(known))
        if blobs:
            carried = sorted(blobs.difference(assigned))
            cells = self.committed.blob_values(carried, rows.column(ROW_ID).to_pylist())
            replaced = pa.nulls(rows.num_rows, pa.large_binary())
            for name in sorted(blobs):
                rows = rows.append_column(schema.field(name), cells.get(name, replaced))
        return rows.select(schema.names).cast(schema)

    # -- the outcome -------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make images of the inserts since the last look."""
        if not self._rows:
            return
        last = {id(row) for row in self._rows.values()}
        for spec, rows in self._embeds.items():
            wanting = [row for row in rows if id(row) in last]
            self.vectors.inserted(spec, wanting, partial(self._earlier, spec))
        schema = self.committed.schema
        values = list(self._rows.values())
        columns = [pa.array([row.get(f.name) for row in values], f.type) for f in schema]
        fresh = pa.Table.from_arrays(columns, schema=schema)
        # An image that an update made has its place; the one that replaces it finds it again.
        self._images.put(list(self._rows), fresh)
        self._rows, self._embeds = {}, {}

    def _earlier(self, spec: EmbedSpec, ids: Sequence[str]) -> Mapping[str, Pair]:
        """The text and the vector of those entities that an insert replaces."""
        if not self.entity.key or not ids:
            return {}
        names = ["id", spec.source.name, spec.target.name]
        if self._images.index():
            images = self._images.find(ids)
        else:
            whole = self._images.whole()
            images = whole.filter(
                pc.is_in(whole.column("id"), value_set=pa.array(ids, pa.string()))
            )
        parts = [
            self.committed.having({"id": tuple(ids)}, names).select(names),
            # What this query made of an entity counts, not what it was.
            images.select(names),
        ]
        columns = ([value for part in parts for value in part[name].to_pylist()] for name in names)
        return {key: (text, vector) for key, text, vector in zip(*columns, strict=True)}

    def finish(self) -> pa.Table:
        """All images, those of committed entities with their places."""
        self._flush()
        images = self._images.whole()
        if self.entity.key and self.inserted:
            images = self._located(images)
        self.committed.check_bytes(images.nbytes)
        self._images.assign(images)
        return self._images.whole()

    def _located(self, images: pa.Table) -> pa.Table:
        """Give upserted entities the places that they have."""
        missing = images.column(ROW_ID).is_null()
        sought = images.column("id").filter(missing).to_pylist()
        found = self.committed.locate(sought)
        if not found.num_rows:
            return images
        where = pc.index_in(images.column("id"), value_set=found.column("id").combine_chunks())
        for name in PLACES:
            known = found.column(name).combine_chunks().take(where.combine_chunks())
            cells = pc.coalesce(images.column(name), known)
            images = images.set_column(images.schema.get_field_index(name), name, cells)
        return images


def _truth(op: UpdateOp, rows: pa.Table, context: EvalContext) -> pa.Array:
    truth = holds(op.where, lambda _, name: rows.column(name), rows.num_rows, context)
    return truth.fill_null(False)


class Upserts:
    """The inserts and updates of one query."""

    def __init__(
        self, committed: Callable[[EntityRef], CommittedRows], embeddings: QueryEmbeddings, ids: Ids
    ) -> None:
        """Build on these committed rows."""
        self._committed = committed
        self._embeddings = embeddings
        self._ids = ids
        self._drafts: dict[EntityRef, TypeUpserts] = {}
        self._ends: dict[EntityRef, tuple[EntityRef, EntityRef]] = {}

    def apply(self, op: InsertOp | UpdateOp, context: EvalContext) -> None:
        """Carry out one statement, on top of the earlier ones."""
        draft = self._drafts.get(op.entity)
        if draft is None:
            draft = TypeUpserts(self._committed(op.entity), self._embeddings, self._ids)
            self._drafts[op.entity] = draft
        if isinstance(op, UpdateOp):
            draft.update(op, context)
            return
        draft.insert(op, context)
        if op.ends is not None:
            self._ends[op.entity] = op.ends

    def finish(self, out: Violations) -> MutationDelta:
        """Judge the last images."""
        images = {
            ref: TypeImages(
                committed=draft.committed,
                rows=draft.finish(),
                inserted=frozenset(draft.inserted),
                assigned=frozenset(draft.assigned),
            )
            for ref, draft in self._drafts.items()
        }
        judged = judge_images(images, self._ends, self._committed, out)
        deltas = tuple(
            TypeDelta(committed=item.committed, images=item.rows) for item in images.values()
        )
        missing = summed(
            item
            for ref, draft in self._drafts.items()
            for item in draft.vectors.missing(ref.table_key, images[ref].rows)
        )
        return MutationDelta(deltas=deltas, judged=judged, missing=missing)
