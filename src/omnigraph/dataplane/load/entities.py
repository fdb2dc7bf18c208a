"""From decoded rows to entities: defaults, ids, and what the exchange has to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import default_scalar
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec
from omnigraph.dataplane.load.exchange import (
    ID,
    LINE,
    LINE_BITS,
    Emitter,
    Lines,
    ends_channel,
    ids_channel,
    key_rows,
    lines_array,
    values_channel,
)
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.rules.identity import entity_ids
from omnigraph.rules.report import joined
from omnigraph.rules.unique import judge_given_ids, uniques
from omnigraph.rules.violation import Origin, Violations
from omnigraph.runtime.ids import CHANCE_BITS, ID_CHARS, decode, encode

_SPLIT_BITS_MIN: Final = 20
_PAIR_BITS: Final = 10
_PAIRS: Final = 4  # pairs of characters that depend on the line
_CHARS: Final = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
# Two characters for each number of ten bits.
_SPELLED: Final = np.stack(np.divmod(np.arange(1 << _PAIR_BITS), 32), axis=1)
_PAIR_OF: Final = np.ascontiguousarray(_CHARS[_SPELLED]).view(np.uint16).ravel()


def new_ids(load_id: str, split: int, lines: npt.NDArray[np.int64]) -> pa.StringArray:
    """One ULID for each line of a split; the lines ascend.

    An id is made of the time and the chance of the load's own ULID, the number of the split and
    the number of the line. So a task that runs again gives the same ids, no two lines share one,
    and the order of ids is the order of the input.
    """
    count = len(lines)
    if count and int(lines[-1]) >> LINE_BITS:
        raise ValueError(f"a split has fewer than 2**{LINE_BITS} lines")
    first = _first(load_id, split)
    text = np.empty((count, ID_CHARS // 2), np.uint16)
    text[:] = np.frombuffer(encode(first).encode(), np.uint16)
    low = lines + (first & ((1 << _PAIRS * _PAIR_BITS) - 1))
    for place in range(_PAIRS):
        digits = low >> (place * _PAIR_BITS)
        if count and digits[0] == digits[-1]:
            digits = digits[:1]  # the same in all ids
        text[:, -1 - place] = _PAIR_OF[digits & ((1 << _PAIR_BITS) - 1)]
    offsets = np.arange(0, (count + 1) * ID_CHARS, ID_CHARS, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _first(load_id: str, split: int) -> int:
    """The number that the ids of a split count on from."""
    bits = max(_SPLIT_BITS_MIN, split.bit_length())
    room = CHANCE_BITS - LINE_BITS
    seed = decode(load_id)
    time, chance = seed >> CHANCE_BITS, seed & ((1 << room - bits) - 1)
    return (time << room | chance << bits | split) << LINE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """Rows of one type with their ids.

    Attributes:
        entity: Their type.
        rows: All columns of the table; `id` is null only where the key is not complete.
        names: What the input calls them: null for those whose id was made here.
        lines: Where each comes from, within its split.
        absent: Per column, which rows do not name the property; columns that all name are missing.
    """

    entity: EntityType
    rows: pa.Table
    names: pa.Array
    lines: Lines
    absent: Mapping[str, pa.Array]

    def filter(self, mask: pa.Array) -> Entities:
        """The selected ones."""
        return Entities(
            entity=self.entity,
            rows=self.rows.filter(mask),
            names=self.names.filter(mask),
            lines=self.lines[np.asarray(mask.fill_null(False))],
            absent={name: absent.filter(mask) for name, absent in self.absent.items()},
        )

    def slice(self, start: int, count: int) -> Entities:
        """A slice of them."""
        return Entities(
            entity=self.entity,
            rows=self.rows.slice(start, count),
            names=self.names.slice(start, count),
            lines=self.lines[start : start + count],
            absent={name: absent.slice(start, count) for name, absent in self.absent.items()},
        )


def decode_spec(plan: LoadPlan) -> DecodeSpec:
    """The specification of the decoder for this load."""
    partial = plan.mode == "merge" and not plan.replace
    return DecodeSpec(catalog=plan.catalog, absences=absences(plan.catalog, partial=partial))


def absences(catalog: Catalog, *, partial: bool) -> dict[str, frozenset[str]]:
    """By table key, the properties of which it matters whether a row names them."""
    found: dict[str, frozenset[str]] = {}
    for entity in (*catalog.nodes, *catalog.edges):
        wanted = {
            p.name
            for p in entity.properties
            if partial or p.default is not None or p.embed is not None
        }
        if wanted:
            found[key_of(entity)] = frozenset(wanted)
    return found


def identified(
    load_id: str, split: int, decoded: Decoded, out: Violations, origin: Origin
) -> Entities:
    """Give every row the id that its key says, or the one it brings, or a new one.

    A row that brings an id and not the key can only mean an entity that exists: a new one would
    lack what is required.
    """
    entity, rows = decoded.entity, decoded.rows
    absent: Mapping[str, pa.Array] = {
        name: joined(mask) for name, mask in decoded.absent.items() if mask.true_count
    }
    if entity.key:
        # What is not there cannot change, but it can still be what the key consists of.
        rows, absent = _filled(entity, rows, absent, frozenset(entity.key))
    given = joined(rows.column(ID_NAME))
    if entity.key:
        names = ids = entity_ids(entity, {name: rows.column(name) for name in entity.key})
        judge_given_ids(entity, given, ids, out, origin)
        if ids.null_count and given.null_count < len(given):
            names = ids = pc.coalesce(ids, given)
    else:
        names = ids = given
        if given.null_count:
            made = new_ids(load_id, split, decoded.lines)
            ids = made if given.null_count == len(given) else pc.coalesce(given, made)
    if ids is not given:
        place = rows.schema.get_field_index(ID_NAME)
        rows = rows.set_column(place, rows.schema.field(place), ids)
    return Entities(entity=entity, rows=rows, names=names, lines=decoded.lines, absent=absent)


def with_defaults(entities: Entities) -> Entities:
    """Give new entities the defaults of what the input does not name."""
    if not entities.absent:
        return entities
    names = frozenset(entities.absent)
    rows, absent = _filled(entities.entity, entities.rows, entities.absent, names)
    return replace(entities, rows=rows, absent=absent)


def _filled(
    entity: EntityType, rows: pa.Table, absent: Mapping[str, pa.Array], names: frozenset[str]
) -> tuple[pa.Table, Mapping[str, pa.Array]]:
    left = dict(absent)
    for name in sorted(names & left.keys()):
        value = default_of(entity, name)
        if value is None:
            continue
        place = rows.schema.get_field_index(name)
        cells = pc.if_else(left.pop(name), value, joined(rows.column(place)))
        rows = rows.set_column(place, rows.schema.field(place), cells)
    return rows, left


@lru_cache(maxsize=4096)
def default_of(entity: EntityType, name: str) -> pa.Scalar | None:
    """The default of a property, as the table stores it; None when it has none."""
    item = entity.property_by_name.get(name)
    return None if item is None else default_scalar(item)


# -- what the exchange has to know -----------------------------------------------------------------


def emit_ids(entities: Entities, emitter: Emitter) -> None:
    """Emit the ids that the input gives; generated ids cannot be referred to."""
    names, lines = entities.names, entities.lines
    if names.null_count:
        if names.null_count == len(names):
            return
        lines = lines[np.asarray(names.is_valid())]
        names = names.drop_null()
    emitter.add(ids_channel(key_of(entities.entity)), key_rows(names, lines))


def emit_ends(entities: Entities, emitter: Emitter) -> None:
    """Emit the nodes that edges name."""
    if entities.entity.kind != "edge":
        return
    for end in ENDS:
        named, lines = joined(entities.rows.column(end)), entities.lines
        if named.null_count:
            lines = lines[np.asarray(named.is_valid())]
            named = named.drop_null()
        emitter.add(ends_channel(entities.entity.name, end), key_rows(named, lines))


def emit_values(
    entities: Entities, emitter: Emitter, *, only: tuple[str, ...] | None = None
) -> None:
    """Emit the unique values of the entities, of all rules or of one."""
    entity, rows = entities.entity, entities.rows
    for columns in uniques(entity) if only is None else (only,):
        cells = {name: joined(rows.column(name)) for name in columns}
        table = pa.table({**cells, ID: entities.names, LINE: lines_array(entities.lines)})
        emitter.add(values_channel(key_of(entity), columns), _whole(table, columns), len(columns))


def _whole(table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The rows without a missing value; the others are exempt."""
    for name in columns:
        if table.column(name).null_count:
            table = table.filter(table.column(name).is_valid())
    return table
