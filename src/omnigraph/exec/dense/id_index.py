"""Sorted ids, and finding one among them in about a microsecond.

Ids of one type mostly start alike, so what all of them share is left out and the next eight bytes
of each are kept as a number. Searching the numbers leaves one candidate, rarely a few; the ids
themselves decide. Nothing but two arrays is needed, so a stored index is usable as it is mapped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec import tuning
from omnigraph.exec.dense.columns import text_buffers
from omnigraph.exec.dense.version_delta import VersionDelta, derived_array
from omnigraph.exec.view import MISSING, Handles

Keys: TypeAlias = npt.NDArray[np.uint64]

_KEY_BYTES: Final = 8


class IdIndex:
    """Ids in ascending order of their bytes. The place of an id is its rank."""

    __slots__ = ("_bytes", "_key_view", "_offsets", "_prefix", "ids", "keys")

    def __init__(self, ids: pa.Array, keys: Keys | None = None) -> None:
        """Take sorted, distinct ids; `keys` if they were computed before."""
        self.ids = ids
        self._prefix = _common_prefix(ids)
        self.keys = prefix_keys(ids, len(self._prefix)) if keys is None else keys
        self._key_view = self.keys.data
        offsets, data = text_buffers(ids)
        self._offsets = offsets.data
        self._bytes = data.data

    def __len__(self) -> int:
        """The number of ids."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return int(self.ids.nbytes) + self.keys.nbytes

    def find_one(self, wanted: str) -> int:
        """The place of an id, or -1."""
        try:
            raw = wanted.encode()
        except UnicodeEncodeError:  # a lone surrogate cannot be stored
            return MISSING
        if not raw.startswith(self._prefix):
            return MISSING
        start = len(self._prefix)
        tail = raw[start : start + _KEY_BYTES].ljust(_KEY_BYTES, b"\0")
        key = int.from_bytes(tail, "big")
        view = self._key_view
        place = bisect_left(view, key)
        if place == len(view) or view[place] != key:
            return MISSING
        if self._raw(place) == raw:
            return place
        end = bisect_right(view, key, place)
        place = bisect_left(range(place, end), raw, key=self._raw) + place
        return place if place < end and self._raw(place) == raw else MISSING

    def find(self, wanted: Sequence[str]) -> Handles:
        """The place of each id, or -1."""
        if len(wanted) < tuning.active.hashed_ids_min:
            return np.array([self.find_one(each) for each in wanted], np.int32)
        texts = [each if each.isascii() else _storable(each) for each in wanted]
        return self.find_array(pa.array(texts, pa.string()))

    def find_array(self, wanted: pa.Array | pa.ChunkedArray) -> Handles:
        """The place of each id of an Arrow array, or -1; null is nowhere."""
        if len(wanted) < tuning.active.hashed_ids_min:
            texts = wanted.to_pylist()
            return np.array(
                [MISSING if each is None else self.find_one(each) for each in texts], np.int32
            )
        found = pc.index_in(wanted.cast(self.ids.type), value_set=self.ids)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        filled: Handles = pc.fill_null(found, MISSING).to_numpy()
        return filled

    def cells(self, places: Sequence[int]) -> list[str | None]:
        """A few ids, null for -1."""
        return [None if at < 0 else self._raw(at).decode() for at in places]

    def lower_bounds(self, wanted: pa.Array) -> npt.NDArray[np.int64]:
        """For each of a few ids, how many of the ids here are below it."""
        places = [
            bisect_left(range(len(self)), each.encode(), key=self._raw)
            for each in wanted.to_pylist()
        ]
        return np.array(places, np.int64)

    def changed(self, ids: pa.Array, delta: VersionDelta) -> IdIndex:
        """The index of the ids that are there after a delta."""
        if not len(self) or not len(ids) or len(_common_prefix(ids)) != len(self._prefix):
            return IdIndex(ids)
        inserted = ids.take(pa.array(delta.inserted))
        return IdIndex(
            ids, derived_array(self.keys, delta, prefix_keys(inserted, len(self._prefix)))
        )

    def _raw(self, place: int) -> bytes:
        offsets = self._offsets
        return bytes(self._bytes[offsets[place] : offsets[place + 1]])


def sorted_order(ids: pa.Array) -> npt.NDArray[np.int64] | None:
    """The order that sorts ids by their bytes; None when they are sorted."""
    if len(ids) < 2:
        return None
    ends = pc.min_max(ids)
    low, high = (ends[name].as_py().encode() for name in ("min", "max"))
    keys = prefix_keys(ids, len(_shared(low, high)))
    order = np.argsort(keys)
    ranked = keys[order]
    same = ranked[1:] == ranked[:-1]
    if same.any():
        # Only ids with equal keys are compared as a whole.
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        rows = order[places]
        order[places] = rows[pc.sort_indices(ids.take(pa.array(rows))).to_numpy()]
    return None if bool((order[1:] > order[:-1]).all()) else order


def prefix_keys(ids: pa.Array, skip: int) -> Keys:
    """Eight bytes of each id as a number, from the byte `skip` on, padded with zeros."""
    offsets, data = text_buffers(ids)
    padded = np.zeros(len(data) + _KEY_BYTES, np.uint8)
    padded[: len(data)] = data
    windows = np.ndarray((len(data) + 1,), np.dtype(">u8"), buffer=padded.data, strides=(1,))
    starts = np.minimum(offsets[:-1].astype(np.int64) + skip, len(data))
    keys = windows[starts].astype(np.uint64)
    room = np.clip(offsets[1:] - starts, 0, _KEY_BYTES).astype(np.uint64)
    spare = np.uint64(8) * (np.uint64(_KEY_BYTES) - room)
    # A shift by the whole width is undefined, and such an id has nothing left anyway.
    mask = np.where(room > 0, ~np.uint64(0) << np.minimum(spare, np.uint64(63)), np.uint64(0))
    return keys & mask


def _common_prefix(ids: pa.Array) -> bytes:
    if not len(ids):
        return b""
    return _shared(ids[0].as_py().encode(), ids[len(ids) - 1].as_py().encode())


def _shared(left: bytes, right: bytes) -> bytes:
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return left[:length]


def _storable(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text
