"""The changes of one type that are not committed yet: new images of entities, and deletions.

Statements read what the earlier ones left: committed rows, with the images in the place of the
entities that were touched already, and without those that were deleted. Of each entity only the
last image counts.

Most queries make all images at once, and then they are one table. A query of many statements, each
about a few entities that it names, must not copy the table for each of them. It adds rows at the
end, and an index by id names the rows that count, until the whole table is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.mutate.committed import PLACES, CommittedRows, without_repeats
from omnigraph.exec.mutate.embedding import Pair, QueryEmbeddings, VectorsOfType
from omnigraph.exec.mutate.values import Stored, given
from omnigraph.exec.prefilter import fixed_ids
from omnigraph.lang.catalog.model import EntityKind
from omnigraph.lang.ir.ops import DeleteOp, EmbedSpec, InsertOp, UpdateOp
from omnigraph.rules.identity import entity_id
from omnigraph.runtime.ids import Ids
from omnigraph.store.table import ROW_ID

# The id of an entity; a number in the place of one that is missing, which no query can name.
_Name: TypeAlias = "str | int"


class ImageTable:
    """The images of one type."""

    __slots__ = ("_at", "_held", "_parts", "_wanted")

    def __init__(self, schema: pa.Schema) -> None:
        """Starts empty."""
        self._parts = [schema.empty_table()]
        # Where the image of an entity is: its part and row. None while there is only one part.
        self._at: dict[_Name, tuple[int, int]] | None = None
        self._wanted = 0
        self._held = 0  # rows of all parts, those that were replaced included

    @property
    def count(self) -> int:
        """The number of images."""
        return self._parts[0].num_rows if self._at is None else len(self._at)

    def whole(self) -> pa.Table:
        """All of them, in the order in which they came."""
        if self._at is not None:
            self.assign(self._take(list(self._at.values())))
        return self._parts[0]

    def assign(self, rows: pa.Table) -> None:
        """Take these rows instead of all there were; each is of another entity."""
        self._parts, self._at, self._wanted = [rows.combine_chunks()], None, 0
        self._held = rows.num_rows

    def index(self) -> bool:
        """Indexes the rows by id, so that finding a few is cheap; False while it costs too much."""
        if self._at is not None:
            return True
        self._wanted += 1
        rows = self._parts[0]
        if rows.num_rows > tuning.active.indexed_images_max * self._wanted:
            return False
        ids = rows.column("id").to_pylist()
        self._at = {row if name is None else name: (0, row) for row, name in enumerate(ids)}
        return True

    def find(self, ids: Iterable[str]) -> pa.Table:
        """The images of those entities that have one. Needs the index."""
        assert self._at is not None
        known = [self._at[name] for name in ids if name in self._at]
        if len(known) > tuning.active.sliced_images_max:
            return self._take(known)
        few = (self._parts[part].slice(row, 1) for part, row in known)
        return pa.concat_tables([self._parts[0].slice(0, 0), *few])

    def _take(self, places: Sequence[tuple[int, int]]) -> pa.Table:
        starts = [0, *accumulate(part.num_rows for part in self._parts)]
        rows = pa.array([starts[part] + row for part, row in places], pa.int64())
        # In many pieces they are taken slowly.
        return pa.concat_tables(self._parts).combine_chunks().take(rows)

    def remove(self, names: Iterable[str]) -> None:
        """Drop the images of some entities. Needs the index."""
        assert self._at is not None
        for name in names:
            self._at.pop(name, None)

    def put(self, names: Sequence[str], rows: pa.Table) -> None:
        """Add images, each in the place of the one that its entity had."""
        if not rows.num_rows:
            return
        if self._at is None:
            images = self._parts[0]
            replaced = pc.is_in(images.column("id"), value_set=pa.array(names, pa.string()))
            self.assign(pa.concat_tables([images.filter(pc.invert(replaced)), rows]))
            return
        part = len(self._parts)
        self._parts.append(rows)
        for row, name in enumerate(names):
            self._at.pop(name, None)
            self._at[name] = (part, row)
        self._held += rows.num_rows
        if self._held > tuning.active.indexed_images_max + 4 * len(self._at):
            self.whole()


_Values: TypeAlias = Sequence[tuple[str, Stored]]


@dataclass(frozen=True, slots=True)
class LoadedRow:
    """The whole image of an entity that was read from an input.

    Attributes:
        image: Its values by column.
        embeds: The vectors that are computed from its texts.
        source: Of an edge that exists, the source that it had.
    """

    image: dict[str, Stored]
    embeds: tuple[EmbedSpec, ...]
    source: str | None = None


class TypeChanges:
    """The changes of one type. An image without a place is of a new entity."""

    def __init__(self, committed: CommittedRows, embeddings: QueryEmbeddings, ids: Ids) -> None:
        """Starts without changes."""
        self.committed = committed
        self.entity = committed.entity
        self.inserted: set[str] = set()  # ids that an insert gave, new or not
        self.assigned: set[str] = set()  # columns that an update has set
        self.left: set[str] = set()  # sources from which edges were moved
        self.vectors = VectorsOfType(committed.entity, embeddings)
        self._ids = ids
        self._images = ImageTable(committed.schema)
        self._rows: dict[str, dict[str, Stored]] = {}  # inserts since the last look at images
        self._embeds: dict[EmbedSpec, list[dict[str, Stored]]] = {}
        # Committed rows that were deleted: by earlier queries, and by this one, perhaps twice.
        self._removed = committed.nothing(columns_deleted(self.entity.kind))
        self._removed_now: list[pa.Table] = []
        self._absent: set[str] = set()  # ids that are known not to be committed
        self._touched: list[pa.ChunkedArray] = []  # ids that this query updated or deleted
        self._named: set[str] = set()  # ids that this query inserted

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
        self._named.add(name)
        self._rows[name] = row
        for spec in op.embeds:
            self._embeds.setdefault(spec, []).append(row)
        self.committed.check_rows(len(self._rows) + self._images.count)

    def put_rows(self, rows: Iterable[LoadedRow]) -> None:
        """Give entities whole images, as inserts would."""
        for row in rows:
            known = row.image.get("id")
            # Without its whole key an entity has no id; the rules will say so.
            name = self._ids.new() if known is None else str(known)
            self.inserted.add(name)
            self._named.add(name)
            if row.source is not None and row.source != row.image["src"]:
                self.left.add(row.source)
            self._rows[name] = row.image
            for spec in row.embeds:
                self._embeds.setdefault(spec, []).append(row.image)
        self.committed.check_rows(len(self._rows) + self._images.count)

    def known(self, ids: Sequence[str]) -> dict[str, dict[str, Stored]]:
        """The images of those entities that exist, as the statements so far have left them."""
        self._flush()
        images = self._images.whole()
        images = images.filter(pc.is_in(images.column("id"), value_set=pa.array(ids, pa.string())))
        schema, blobs = self.committed.schema, sorted(self.committed.blobs)
        columns = [name for name in schema.names if name not in (*blobs, *PLACES)]
        rows = self._untouched(self.committed.having({"id": tuple(ids)}, columns), images)
        if blobs:
            cells = self.committed.blob_values(blobs, rows.column(ROW_ID).to_pylist())
            for name in blobs:
                rows = rows.append_column(schema.field(name), cells[name])
        rows = pa.concat_tables([images, rows.select(schema.names).cast(schema)])
        return {str(row["id"]): row for row in rows.to_pylist()}

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
                self._touched.append(changed.column("id"))

    def _update_all(self, op: UpdateOp, values: _Values, context: EvalContext) -> None:
        """Change the entities that meet a condition."""
        images = self._images.whole()
        mine = _truth(op, images, context)
        fresh = self._fresh(op, images, {name for name, _ in values}, context)
        changed = [self._changed(op, rows, values) for rows in (images.filter(mine), fresh)]
        self._touched += [rows.column("id") for rows in changed]
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
        rows = self._untouched(rows, images)
        if blobs:
            carried = sorted(blobs.difference(assigned))
            cells = self.committed.blob_values(carried, rows.column(ROW_ID).to_pylist())
            replaced = pa.nulls(rows.num_rows, pa.large_binary())
            for name in sorted(blobs):
                rows = rows.append_column(schema.field(name), cells.get(name, replaced))
        return rows.select(schema.names).cast(schema)

    def _untouched(self, rows: pa.Table, images: pa.Table | None = None) -> pa.Table:
        """Committed rows without those that have one of these images or were deleted before."""
        for known in (images, self._removed):
            if known is not None and known.num_rows and rows.num_rows:
                rows = rows.filter(pc.invert(_among(rows.column("id"), known.column("id"))))
        return rows

    # -- deletes -----------------------------------------------------------------------------------

    def delete(self, op: DeleteOp, context: EvalContext) -> pa.ChunkedArray:
        """Delete every entity that meets the predicate; returns their ids."""
        self._flush()
        rows = self.committed.matching(op.where, op.reads, self._deleted_columns, context)
        if not self._images.count:
            return self._remove(self._untouched(rows))
        ids = fixed_ids(op.where, self.entity, context)
        if ids is not None and self._images.index():
            images = self._images.find(ids)
            mine = images.filter(_truth(op, images, context))
            self._images.remove(mine.column("id").to_pylist())
        else:
            images = self._images.whole()
            truth = _truth(op, images, context)
            mine = images.filter(truth)
            self._images.assign(images.filter(pc.invert(truth)))
        return self._remove(self._untouched(rows, images), mine)

    def delete_at_ends(self, ends: Mapping[str, Sequence[str]]) -> None:
        """Delete the edges that have one of these nodes at an end: by column, the ids of nodes."""
        self._flush()
        rows = self.committed.having(ends, self._deleted_columns)
        if not self._images.count:
            self._remove(self._untouched(rows))
            return
        images = self._images.whole()
        hangs = [
            pc.is_in(images.column(name), value_set=pa.array(ids, pa.string()))
            for name, ids in ends.items()
        ]
        truth = hangs[0] if len(hangs) == 1 else pc.or_(*hangs)
        self._images.assign(images.filter(pc.invert(truth)))
        self._remove(self._untouched(rows, images), images.filter(truth))

    @property
    def _deleted_columns(self) -> list[str]:
        return columns_deleted(self.entity.kind)

    def _remove(self, rows: pa.Table, images: pa.Table | None = None) -> pa.ChunkedArray:
        """Note that committed rows and images are deleted; returns the ids of both."""
        self._touched.append(rows.column("id"))
        self._removed_now.append(rows)
        if images is None or not images.num_rows:
            return rows.column("id")
        ids = images.column("id").drop_null()
        self._touched.append(ids)
        self.inserted.difference_update(ids.to_pylist())
        if self.entity.key:
            # An insert replaces a committed entity without a look at it.
            stored = self.committed.having({"id": ids.to_pylist()}, self._deleted_columns)
        else:
            stored = images.filter(images.column(ROW_ID).is_valid()).select(rows.column_names)
            stored = stored.cast(rows.schema)
        self._removed_now.append(self._untouched(stored))
        return pa.chunked_array([*rows.column("id").chunks, *ids.chunks], pa.string())

    # -- the outcome -------------------------------------------------------------------------------

    def end_query(self) -> int:
        """End a query; returns how many different entities it has touched."""
        self.removed()
        parts = [ids for ids in self._touched if len(ids)]
        if self._named:
            parts.append(pa.chunked_array([pa.array(list(self._named), pa.string())]))
        self._touched, self._named = [], set()
        if len(parts) < 2:
            return sum(map(len, parts))
        return int(
            pc.count_distinct(pa.chunked_array([c for p in parts for c in p.chunks])).as_py()
        )

    def removed(self) -> pa.Table:
        """The committed rows that are deleted, once each, with their places."""
        if self._removed_now:
            parts = [rows for rows in (self._removed, *self._removed_now) if rows.num_rows]
            self._removed = without_repeats(parts) if parts else self._removed
            self._removed_now = []
        return self._removed

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
        stored = self.committed.having({"id": tuple(ids)}, names)
        # What was made of an entity counts, not what it was.
        parts = [self._untouched(stored, images).select(names), images.select(names)]
        columns = ([value for part in parts for value in part[name].to_pylist()] for name in names)
        return {key: (text, vector) for key, text, vector in zip(*columns, strict=True)}

    def images(self) -> pa.Table:
        """All images, those of committed entities with their places."""
        self._flush()
        images = self._images.whole()
        if self.inserted:
            images = self._located(images)
        self.committed.check_bytes(images.nbytes)
        self._images.assign(images)
        return self._images.whole()

    def _located(self, images: pa.Table) -> pa.Table:
        """Give upserted entities the places that they have."""
        missing = images.column("id").filter(images.column(ROW_ID).is_null()).drop_null()
        if not self.entity.key:
            # An id that was generated is new; one that was loaded may have been deleted before.
            missing = missing.filter(_among(missing, self.removed().column("id")))
        named = missing.to_pylist()
        sought = [name for name in named if name not in self._absent]
        if not sought:
            return images
        found = self.committed.locate(sought)
        self._absent.update(sought)
        self._absent.difference_update(found.column("id").to_pylist())
        if not found.num_rows:
            return images
        where = pc.index_in(images.column("id"), value_set=found.column("id").combine_chunks())
        for name in PLACES:
            known = found.column(name).combine_chunks().take(where.combine_chunks())
            cells = pc.coalesce(images.column(name), known)
            images = images.set_column(images.schema.get_field_index(name), name, cells)
        return images


def _truth(op: UpdateOp | DeleteOp, rows: pa.Table, context: EvalContext) -> pa.Array:
    truth = holds(op.where, lambda _, name: rows.column(name), rows.num_rows, context)
    return truth.fill_null(False)


def columns_deleted(kind: EntityKind) -> list[str]:
    """The columns that are read of what is deleted."""
    return ["id"] if kind == "node" else ["id", "src"]


def _among(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> pa.ChunkedArray:
    """True for the ids that are known."""
    if len(ids) < len(known):
        # Few are sought among many: the few are hashed.
        known = known.filter(pc.is_in(known, value_set=ids.combine_chunks()))
    return pc.is_in(ids, value_set=known.combine_chunks(), skip_nulls=True)
