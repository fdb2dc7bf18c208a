"""Columns as JSON text, one text per value, made by Arrow kernels."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONEncoder
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Code, Corrupt
from omnigraph.lang.values import FLOATS, INTEGERS, Base, ValueType

Bytes = npt.NDArray[np.uint8]

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_FIRST_PLAIN: Final = ord(" ")  # what is smaller is a control character
_JSON: Final = JSONEncoder(ensure_ascii=False)


def escaped(texts: pa.StringArray) -> pa.StringArray:
    """The same texts with quotes, backslashes and control characters escaped; nulls stay.

    Most texts need nothing, as a look at the bytes of a column shows; only the others are spelled
    one by one. To spell all of them takes 3 times as long if one in fifty needs it, and 4 times
    if none does (`python -m bench kernels`, processor time).
    """
    data, offsets = _contents(texts)
    places = np.flatnonzero((data < _FIRST_PLAIN) | (data == _QUOTE) | (data == _BACKSLASH))
    if not len(places):
        return texts
    is_special = np.zeros(len(texts), np.bool_)
    is_special[np.searchsorted(offsets, places, side="right") - 1] = True
    # Below a null there may be bytes, too; they mean nothing.
    mask = pc.and_(pa.array(is_special), texts.is_valid())
    spelled = [_JSON.encode(text)[1:-1] for text in texts.filter(mask).to_pylist()]
    return pc.replace_with_mask(texts, mask, pa.array(spelled, texts.type))


def _contents(texts: pa.StringArray) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """The bytes of all texts, one after another, and where each begins."""
    _, starts, content = texts.buffers()
    if not len(texts) or content is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int32)
    offsets = np.frombuffer(starts, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


NULL: Final = "null"
_TEXT: Final = pa.string()
_LARGE_TEXT: Final = pa.large_string()
_DAY_CHARS: Final = len("2020-01-01")


@dataclass(frozen=True, slots=True)
class EncodedCells:
    """Values as text, without what stands before and after each of them; null for none."""

    text: pa.Array
    before: str = ""
    after: str = ""

    def whole(self) -> pa.Array:
        """The texts with what stands around them; nulls stay."""
        if not self.before and not self.after:
            return self.text
        return glued([self.before, self.text, self.after])


def glued(pieces: Sequence[pa.Array | str], null: str | None = None) -> pa.Array:
    """Texts joined row by row; a single text is repeated in every row.

    Args:
        pieces: Columns, and texts.
        null: What stands for a null; None makes the whole row null.
    """
    kind = _TEXT
    if any(isinstance(piece, pa.LargeStringArray) for piece in pieces):
        kind = _LARGE_TEXT  # blobs: all of them may be more than 2 GB
    same = [
        pa.scalar(piece, kind) if isinstance(piece, str) else piece.cast(kind) for piece in pieces
    ]
    handling = "emit_null" if null is None else "replace"
    return pc.binary_join_element_wise(
        *same, pa.scalar("", kind), null_handling=handling, null_replacement=null or ""
    )


def cells(column: pa.Array, kind: ValueType) -> EncodedCells:
    """The values of a property.

    Raises:
        Corrupt: A number is not finite, which no rule lets pass and JSON cannot say.
    """
    if kind.base is Base.VECTOR:
        return _lists(column, Base.F32)
    return _lists(column, kind.base) if kind.is_list else _scalars(column, kind.base)


def _scalars(column: pa.Array, base: Base) -> EncodedCells:
    if base is Base.STRING:
        return EncodedCells(escaped(column), '"', '"')
    if base in FLOATS:
        return EncodedCells(_numbers(column))
    if base in INTEGERS or base is Base.BOOL:
        return EncodedCells(column.cast(_TEXT))
    if base is Base.DATE:
        return EncodedCells(column.cast(_TEXT), '"', '"')
    if base is Base.DATETIME:
        return EncodedCells(_moments(column), '"', 'Z"')
    return EncodedCells(_blobs(column), '"base64:', '"')


def _numbers(column: pa.Array) -> pa.Array:
    """The shortest digits that read back as the same number."""
    values = column.drop_null().to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all():
        text = "a stored number is not finite, and JSON has no such number: export Arrow or Parquet"
        raise Corrupt(Code.CORRUPT, text)
    spelled = column.cast(_TEXT)
    if not (np.signbit(values) & (values == 0)).any():
        return spelled
    # Without a point many read it as an integer, and those have one zero only.
    return pc.if_else(pc.equal(spelled, "-0"), "-0.0", spelled)


def _moments(column: pa.Array) -> pa.Array:
    """`YYYY-MM-DDTHH:MM:SS.mmm`; Arrow has a space for the T."""
    spelled = column.cast(pa.timestamp("ms")).cast(_TEXT)
    validity, starts, content = spelled.buffers()
    if content is None:
        return spelled
    offsets = np.frombuffer(starts, np.int32)[: len(spelled) + 1]
    begins = offsets[:-1][np.diff(offsets) > 0]
    data = np.frombuffer(content, np.uint8)[: offsets[-1]].copy()
    data[begins + _DAY_CHARS] = ord("T")
    return pa.StringArray.from_buffers(
        len(spelled), starts, pa.py_buffer(data), validity, spelled.null_count
    )


def _blobs(column: pa.Array) -> pa.Array:
    """Blobs as base 64, one at a time: they are large and few."""
    values = [None if value is None else b64encode(value) for value in column.to_pylist()]
    return pa.array(values, pa.large_binary()).cast(_LARGE_TEXT)


def _lists(column: pa.Array, base: Base) -> EncodedCells:
    elements = _scalars(column.flatten(), base).whole().fill_null(NULL)
    counts = pc.list_value_length(column).fill_null(0)
    ends = np.cumsum(counts.to_numpy(zero_copy_only=False), dtype=np.int32)
    offsets = pa.array(np.concatenate(([np.int32(0)], ends)), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    if column.null_count:
        joined = pc.if_else(column.is_valid(), joined, pa.scalar(None, _TEXT))
    return EncodedCells(joined, "[", "]")
