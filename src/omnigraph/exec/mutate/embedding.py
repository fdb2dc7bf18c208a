"""Vectors that are computed from texts while a query writes them.

A write of a text leaves the vector that belongs to it: the one that it has, if the text is the
same as before, or one that is computed now. Without a provider it is null, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embed.missing import MissingVectors, vector_needed
from omnigraph.embed.refused import moved, naming_entity, position_of
from omnigraph.errors import InvalidInput
from omnigraph.exec.mutate.values import Stored
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.ir.ops import EmbedSpec

Pair: TypeAlias = "tuple[Stored, Stored]"  # a text and its vector


class EmbedderSource(Protocol):
    """A source of vectors for texts. Asked only by queries that need them."""

    @property
    def has_provider(self) -> bool:
        """True if it can compute vectors at all."""
        ...

    def embed_texts(
        self, texts: Sequence[str], dim: int, model: str | None
    ) -> Sequence[tuple[float, ...]]:
        """A vector per text, by the given model, or by the configured one."""
        ...


class QueryEmbeddings:
    """The embeddings of one query. A text is sent once, however often the query starts over."""

    def __init__(self, source: EmbedderSource) -> None:
        """Ask this source."""
        self._source = source
        self._known: dict[tuple[str | None, int, str], tuple[float, ...]] = {}

    @property
    def has_provider(self) -> bool:
        """True if vectors can be computed."""
        return self._source.has_provider

    def vectors(self, spec: EmbedSpec, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """A vector for each text."""
        model, dim = spec.model, spec.target.type.dim
        unknown = [t for t in dict.fromkeys(texts) if (model, dim, t) not in self._known]
        if unknown:
            try:
                made = self._source.embed_texts(unknown, dim, model)
            except InvalidInput as problem:
                position = position_of(problem)
                if position is None:
                    raise
                raise moved(problem, list(texts).index(unknown[position])) from None
            for text, vector in zip(unknown, made, strict=True):
                self._known[model, dim, text] = tuple(vector)
        return [self._known[model, dim, text] for text in texts]


class VectorsOfType:
    """The vectors that a query leaves in the entities of one type."""

    def __init__(self, entity: EntityType, embeddings: QueryEmbeddings) -> None:
        """Starts empty."""
        self._entity = entity
        self._embeddings = embeddings
        self._empty: dict[EmbedSpec, set[str]] = {}  # ids of entities that were left without

    def updated(self, spec: EmbedSpec, text: Stored, before: pa.Table, after: pa.Table) -> pa.Table:
        """Rows whose text was set to one value, with the vector that belongs to it."""
        if not after.num_rows:
            return after
        name = spec.target.name
        old = before.column(name).combine_chunks()
        place = after.schema.get_field_index(name)
        field = after.schema.field(place)
        if not isinstance(text, str):
            return after.set_column(place, field, pa.nulls(after.num_rows, field.type))
        same = pc.equal(before.column(spec.source.name), text).fill_null(False)
        kept = pc.and_(same, before.column(name).is_valid()).combine_chunks()
        if kept.true_count == len(kept):
            return after.set_column(place, field, old)
        vector: Stored = None
        if self._can_compute(spec):
            first = after.column("id").filter(pc.invert(kept))[0].as_py()
            with self._naming(spec, lambda _: first):
                (vector,) = self._embeddings.vectors(spec, [text])
        else:
            ids = after.column("id").filter(pc.invert(kept)).to_pylist()
            self._empty.setdefault(spec, set()).update(ids)
        cells = pa.repeat(pa.scalar(vector, field.type), after.num_rows)
        return after.set_column(place, field, pc.if_else(kept, old, cells))

    def inserted(
        self,
        spec: EmbedSpec,
        rows: Sequence[dict[str, Stored]],
        earlier: Callable[[Sequence[str]], Mapping[str, Pair]],
    ) -> None:
        """Give new rows their vectors; `earlier` finds entities that were there before."""
        target, source = spec.target.name, spec.source.name
        wanting = [row for row in rows if isinstance(row[source], str)]
        known = earlier([str(row["id"]) for row in wanting if row.get("id") is not None])
        open_: list[tuple[dict[str, Stored], str]] = []
        for row in wanting:
            text, vector = known.get(str(row.get("id")), (None, None))
            if vector is not None and text == row[source]:
                row[target] = vector
            else:
                open_.append((row, str(row[source])))
        if not open_:
            return
        if not self._can_compute(spec):
            ids = (str(row["id"]) for row, _ in open_ if row.get("id") is not None)
            self._empty.setdefault(spec, set()).update(ids)
            return
        with self._naming(spec, lambda at: _id_of(open_[at][0])):
            vectors = self._embeddings.vectors(spec, [text for _, text in open_])
        for (row, _), vector in zip(open_, vectors, strict=True):
            row[target] = vector

    def missing(self, table_key: str, images: pa.Table) -> tuple[MissingVectors, ...]:
        """The entities that are left without a vector in the end, counted."""
        found: list[MissingVectors] = []
        for spec, ids in self._empty.items():
            named = pc.is_in(images.column("id"), value_set=pa.array(sorted(ids), pa.string()))
            empty = pc.and_(
                images.column(spec.target.name).is_null(),
                images.column(spec.source.name).is_valid(),
            )
            count = pc.sum(pc.and_(named, empty)).as_py() or 0
            found.append(
                MissingVectors(table_key=table_key, property=spec.target.name, count=count)
            )
        return tuple(found)

    def _naming(
        self, spec: EmbedSpec, id_of: Callable[[int], str | None]
    ) -> AbstractContextManager[None]:
        """Name the entity whose text is refused in the block."""
        return naming_entity(self._entity.name, spec.target.name, spec.source.name, id_of)

    def _can_compute(self, spec: EmbedSpec) -> bool:
        """True if there is a provider; without one, refuse unless the vector may be null."""
        if self._embeddings.has_provider:
            return True
        if not spec.target.type.nullable:
            raise vector_needed(self._entity.name, spec.target.name, spec.source.name)
        return False


def _id_of(row: Mapping[str, Stored]) -> str | None:
    found = row.get("id")
    return None if found is None else str(found)
