"""Numbers that stand for values, equal or ordered as the values are, and sorting rows by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning
from omnigraph.exec.large_text import is_long
from omnigraph.exec.read.columns import ConstantColumn, EntityColumn, ResultColumn, StoredColumn
from omnigraph.exec.read.dictionary import dictionary_column
from omnigraph.exec.read.frame import Index
from omnigraph.exec.view import Counts

SortKeys: TypeAlias = list[npt.NDArray[Any]]

_CODES_MAX = 2**62


# -- equality ------------------------------------------------------------------------------


def column_codes(column: ResultColumn) -> tuple[Counts, int]:
    """A number per row, equal where values are, 0 for missing ones; and a bound of them."""
    match column:
        case EntityColumn(handles=handles) | StoredColumn(column="id", handles=handles):
            return handles.astype(np.int64) + 1, int(handles.max(initial=-1)) + 2
        case ConstantColumn(rows=rows):
            return np.zeros(rows, np.int64), 1
        case StoredColumn(view, entity, name, handles):
            known = dictionary_column(view, entity, name)
            if known is not None:
                numbers = (
                    np.append(known.numbers, 0) if handles.min(initial=0) < 0 else known.numbers
                )
                return numbers[handles].astype(np.int64), len(known.values) + 1
            if len(handles) <= view.size(entity):
                return codes(column.arrow())
            of_all, bound = codes(view.take(entity, name, None))
            return np.append(of_all, 0)[handles], bound  # a missing one, -1, is the last
        case _:
            return codes(column.arrow())


def codes(array: pa.Array) -> tuple[Counts, int]:
    """A number per value, equal where values are, 0 for null; and a bound of them."""
    if pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type):
        known: dict[object, int] = {None: 0}
        found = [
            known.setdefault(None if item is None else tuple(item), len(known))
            for item in array.to_pylist()
        ]
        return np.array(found, np.int64), len(known)
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))  # zero loses its sign
    if is_long(array):
        ranks, first = text_ranks(array)
        return ranks + 1, len(first) + 1
    encoded = array.dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return places.astype(np.int64) + 1, len(encoded.dictionary) + 1


def text_ranks(array: pa.Array) -> tuple[Counts, Counts]:
    """The rank of each text among the different ones, -1 for null; and a row of each rank.

    Sorts, so nothing is copied: better than a dictionary where texts are long.
    """
    numbers = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    ranks = numbers.to_numpy().astype(np.int64) - 1
    if array.null_count:
        ranks[array.is_null().to_numpy(zero_copy_only=False)] = -1
    first = np.empty(int(ranks.max(initial=-1)) + 1, np.int64)
    there = np.flatnonzero(ranks >= 0)
    first[ranks[there]] = there
    return ranks, first


def grouped(parts: list[tuple[Counts, int]], rows: int) -> tuple[Counts, Counts]:
    """The group of each row, and for each group the place of one of its rows."""
    if not parts:
        return np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64)
    keys, bound = parts[0]
    for more, size in parts[1:]:
        if bound * size > _CODES_MAX:
            _, keys = np.unique(keys, return_inverse=True)
            bound = rows
        keys, bound = keys * size + more, bound * size
    if bound > max(4 * rows, 1 << 16):
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        return group, first
    owner = np.full(bound, -1, np.int64)
    owner[keys] = np.arange(rows)
    there = np.flatnonzero(owner >= 0)
    first = owner[there]
    owner[there] = np.arange(len(there))
    return owner[keys], first


# -- order ---------------------------------------------------------------------------------


def column_order(column: ResultColumn) -> SortKeys:
    """Arrays that sort as the values do, nulls first; the first array decides first."""
    match column:
        case EntityColumn(view, entity, _, handles) | StoredColumn(view, entity, "id", handles):
            return [view.rank(entity, handles)]
        case ConstantColumn():
            return []
        case _:
            return order_keys(column.arrow())


def order_keys(array: pa.Array) -> SortKeys:
    """Arrays that sort as the values do, nulls first; the first array decides first."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_timestamp(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return [_ordinals(array)]
    if not array.null_count:
        return [array.to_numpy(zero_copy_only=False)]
    if pa.types.is_floating(array.type):
        # Stored numbers are finite, so nothing else is there.
        return [array.fill_null(-np.inf).to_numpy(zero_copy_only=False)]
    if array.type.bit_width < 64:
        wide = array.cast(pa.int64())
        return [wide.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return [valid.view(np.int8), array.fill_null(0).to_numpy(zero_copy_only=False)]


def backwards(keys: SortKeys) -> SortKeys:
    """The same order from its other end."""
    return [-key if key.dtype.kind == "f" else ~key for key in keys]


def _ordinals(array: pa.Array) -> Counts:
    if pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type):
        items = [None if item is None else tuple(item) for item in array.to_pylist()]
        ordered = sorted({item for item in items if item is not None})
        places: dict[object, int] = {item: place for place, item in enumerate(ordered)}
        places[None] = -1
        return np.array([places[item] for item in items], np.int64)
    if is_long(array):
        return text_ranks(array)[0]
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    found: Counts = ranks[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


# Gives the sort keys of all rows, or of the rows at some places.
KeySource: TypeAlias = Callable[["Index | None"], SortKeys]


def ordered(sources: Sequence[KeySource], rows: int, most: int | None) -> Index:
    """The places of the first `most` rows (or of all) in the order of the keys."""
    if most is not None and most <= 0:
        return np.empty(0, np.int64)
    if most is None or rows < tuning.active.partial_sort_rows_min or most * 4 > rows:
        return _sorted(sources, None, rows)
    for source in sources:
        for key in source(None):
            limit = np.partition(key, most - 1)[most - 1]
            within = np.flatnonzero(key <= limit)
            if len(within) < rows:
                # Only what is still in the race is compared by the other keys.
                return _sorted(sources, within, len(within))[:most]
            if key.min() != limit:
                return _sorted(sources, None, rows)
            # All rows are equal so far: they may differ in the next key.
    return _sorted(sources, None, rows)


def _sorted(sources: Sequence[KeySource], places: Index | None, rows: int) -> Index:
    keys = [key for source in sources for key in source(places)]
    if not keys:
        return np.arange(rows) if places is None else places
    # The last key of a lexical sort decides first.
    found = np.lexsort(keys[::-1]) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    return found if places is None else places[found]
