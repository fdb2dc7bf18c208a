"""Vectors that are computed from texts while a load writes them.

A write of a text leaves the vector that belongs to it: the one that it has, if the text is the
same as before, or one that is computed now. Without a provider it is null, and that is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.entities import Entities
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.embed.cache import Rows
from omnigraph.embed.missing import MissingVectors, summed, vector_needed
from omnigraph.embed.refused import naming_entity
from omnigraph.lang.catalog.model import Embed, EntityType, Property
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.rules.report import joined

_NUMBER_BYTES: Final = 4
_ROWS_MIN: Final = 256
_COPIES_AT_ONCE: Final = 4  # of a vector while it takes its place in a column


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """The cells of one vector column that have to be computed."""

    target: Property
    embed: Embed
    mask: pa.Array


def embedded(entity: EntityType) -> tuple[tuple[Property, Embed], ...]:
    """The vectors of a type that are computed from texts."""
    return tuple((item, item.embed) for item in entity.properties if item.embed is not None)


def rows_at_once(plan: LoadPlan, entity: EntityType, most: int) -> int:
    """The number of rows that are finished at a time, so that their vectors fit in memory."""
    numbers = sum(item.type.dim for item, _ in embedded(entity))
    if not numbers:
        return most
    return min(
        most, max(_ROWS_MIN, plan.fragment_bytes // (numbers * _NUMBER_BYTES * _COPIES_AT_ONCE))
    )


def pieces(plan: LoadPlan, entities: Entities) -> Iterator[Entities]:
    """New entities, some at a time if they need vectors."""
    count = entities.rows.num_rows
    step = rows_at_once(plan, entities.entity, count)
    if step >= count:
        yield entities
        return
    for start in range(0, count, step):
        yield entities.slice(start, min(step, count - start))


def pending_of_new(entities: Entities) -> list[PendingVectors]:
    """The vectors that new entities do not name, though they have the text."""
    found: list[PendingVectors] = []
    for target, embed in embedded(entities.entity):
        absent = entities.absent.get(target.name)
        if absent is None:
            continue
        mask = pc.and_(
            absent.fill_null(False), joined(entities.rows.column(embed.source)).is_valid()
        )
        if mask.true_count:
            found.append(PendingVectors(target, embed, mask))
    return found


def pending_of_known(
    entities: Entities, rows: pa.Table, old: Callable[[str], pa.Array], *, is_whole: bool
) -> tuple[pa.Table, list[PendingVectors]]:
    """The images of known entities without vectors of old texts, and what to compute for them.

    Args:
        entities: What the input says.
        rows: The images.
        old: A column of the committed rows.
        is_whole: What the input does not name is lost, not kept.
    """
    found: list[PendingVectors] = []
    for target, embed in embedded(entities.entity):
        wanted = entities.absent.get(target.name)
        if wanted is None:
            continue
        wanted = wanted.fill_null(False)
        unnamed = entities.absent.get(embed.source)
        if unnamed is not None and not is_whole:
            wanted = pc.and_(wanted, pc.invert(unnamed.fill_null(False)))
        if not wanted.true_count:
            continue
        text, before = joined(rows.column(embed.source)), old(embed.source)
        same = pc.equal(text, before).fill_null(False)
        if not is_whole:
            same = pc.or_(same, pc.and_(text.is_null(), before.is_null()))
        vectors = old(target.name)
        # Of the rows that write the text: those whose vector is that of the same text keep it.
        keep = pc.or_(pc.invert(wanted), same)
        if is_whole:
            chosen = pc.if_else(pc.and_(wanted, same), vectors, joined(rows.column(target.name)))
        else:
            chosen = pc.if_else(
                keep, joined(rows.column(target.name)), pa.scalar(None, vectors.type)
            )
        place = rows.schema.get_field_index(target.name)
        rows = rows.set_column(place, rows.schema.field(place), chosen)
        mask = pc.and_(pc.and_(wanted, text.is_valid()), chosen.is_null())
        if mask.true_count:
            found.append(PendingVectors(target, embed, mask))
    return rows, found


def for_judging(rows: pa.Table, pending: Sequence[PendingVectors]) -> pa.Table:
    """Rows as they can be judged before their vectors are computed: none that is required lacks."""
    for item in pending:
        if not item.target.type.nullable:
            ones = np.ones((item.mask.true_count, item.target.type.dim), np.float32)
            rows = _filled(rows, item, ones)
    return rows


class TaskVectors:
    """Computes the vectors of the rows of one task, and counts those that cannot be computed."""

    def __init__(self, plan: LoadPlan) -> None:
        """Ask the provider of a plan."""
        self._plan = plan
        self._missing: list[MissingVectors] = []

    @property
    def missing(self) -> tuple[MissingVectors, ...]:
        """The vectors that were left null."""
        return summed(self._missing)

    def computed(
        self, entity: EntityType, rows: pa.Table, pending: Sequence[PendingVectors]
    ) -> pa.Table:
        """Rows with their vectors.

        Raises:
            InvalidInput: A vector is required, and no provider is configured.
        """
        for item in pending:
            self._plan.stop.check()
            if self._plan.embeddings.has_provider:
                rows = _filled(rows, item, self._vectors(entity, rows, item))
                continue
            if not item.target.type.nullable:
                raise vector_needed(entity.name, item.target.name, item.embed.source)
            self._missing.append(
                MissingVectors(
                    table_key=key_of(entity),
                    property=item.target.name,
                    count=item.mask.true_count,
                )
            )
        return rows

    def _vectors(self, entity: EntityType, rows: pa.Table, item: PendingVectors) -> Rows:
        source, target = item.embed.source, item.target.name
        names = (ID_NAME, source)
        ids, texts = (joined(rows.column(name)).filter(item.mask) for name in names)
        with naming_entity(entity.name, target, source, lambda at: ids[at].as_py()):
            return self._plan.embeddings.embed_rows(
                texts.to_pylist(), item.target.type.dim, item.embed.model
            )


def _filled(rows: pa.Table, item: PendingVectors, vectors: Rows) -> pa.Table:
    """Rows in which the pending cells of a column have these vectors, one after the other."""
    place = rows.schema.get_field_index(item.target.name)
    field = rows.schema.field(place)
    cells = joined(rows.column(place))
    made = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=field.type)
    if len(made) == len(cells):
        return rows.set_column(place, field, made)
    at = np.arange(len(cells))
    at[np.asarray(item.mask)] = len(cells) + np.arange(len(made))
    return rows.set_column(place, field, pa.concat_arrays([cells, made]).take(pa.array(at)))
