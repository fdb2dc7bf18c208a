"""Comparisons that are exact: no side is ever rounded to suit the other one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.ir.expr import CompareOp, ConstValue
from omnigraph.lang.values import INT_RANGES, Base

_KERNELS: dict[CompareOp, str] = {
    CompareOp.EQ: "equal",
    CompareOp.NE: "not_equal",
    CompareOp.LT: "less",
    CompareOp.LE: "less_equal",
    CompareOp.GT: "greater",
    CompareOp.GE: "greater_equal",
}
_ABOVE: frozenset[CompareOp] = frozenset({CompareOp.NE, CompareOp.LT, CompareOp.LE})
_BELOW: frozenset[CompareOp] = frozenset({CompareOp.NE, CompareOp.GT, CompareOp.GE})


# -- constants -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A comparison that comes out the same for every value of a type."""

    truth: bool


def compare_given(op: CompareOp, left: ConstValue, right: ConstValue) -> bool | None:
    """Compare two constants; None when one of them is missing."""
    if left is None or right is None:
        return None
    # Python compares integers with floats exactly, and texts as their UTF-8 bytes would.
    match op:
        case CompareOp.EQ:
            return left == right
        case CompareOp.NE:
            return left != right
        case CompareOp.LT:
            return bool(left < right)  # type: ignore[operator]
        case CompareOp.LE:
            return bool(left <= right)  # type: ignore[operator]
        case CompareOp.GT:
            return bool(left > right)  # type: ignore[operator]
        case CompareOp.GE:
            return bool(left >= right)  # type: ignore[operator]
        case _:
            assert_never(op)


def exactly(given: ConstValue, kind: pa.DataType) -> ConstValue:
    """The constant as a value of a column's type, or None when no such value equals it."""
    _, found = _fitted(CompareOp.EQ, given, kind)
    return None if isinstance(found, _Verdict) else found


def _fitted(
    op: CompareOp, given: ConstValue, kind: pa.DataType
) -> tuple[CompareOp, ConstValue | _Verdict]:
    """The comparison with a constant as one that needs no value outside of the column's type."""
    if pa.types.is_integer(kind) and isinstance(given, int | float):
        return _fitted_integer(op, given, kind)
    if pa.types.is_floating(kind) and isinstance(given, int | float):
        return _fitted_float(op, given, kind)
    return op, given


def _fitted_integer(
    op: CompareOp, given: float, kind: pa.DataType
) -> tuple[CompareOp, ConstValue | _Verdict]:
    low, high = _RANGES[kind]
    if isinstance(given, float):
        if math.isnan(given):
            return op, _Verdict(op is CompareOp.NE)
        if math.isinf(given):
            return op, _Verdict(op in (_ABOVE if given > 0 else _BELOW))
        if not given.is_integer():
            if op in (CompareOp.EQ, CompareOp.NE):
                return op, _Verdict(op is CompareOp.NE)
            # Between two integers: compare with the upper one, strictly from below.
            op = CompareOp.LT if op in _ABOVE else CompareOp.GE
            given = math.ceil(given)
        given = int(given)
    if given > high:
        return op, _Verdict(op in _ABOVE)
    if given < low:
        return op, _Verdict(op in _BELOW)
    return op, given


def _fitted_float(
    op: CompareOp, given: float, kind: pa.DataType
) -> tuple[CompareOp, ConstValue | _Verdict]:
    width = np.float32 if pa.types.is_float32(kind) else np.float64
    with np.errstate(over="ignore"):
        # An integer may be beyond every float; a float may be beyond every F32.
        try:
            near = float(width(given))
        except OverflowError:
            near = math.copysign(math.inf, given)
    if near == given or math.isnan(near):
        return op, near
    if op in (CompareOp.EQ, CompareOp.NE):
        return op, _Verdict(op is CompareOp.NE)
    # Between two neighbours: `near` is one of them, and no value lies between it and `given`.
    if op in _ABOVE:
        return (CompareOp.LT if near > given else CompareOp.LE), near
    return (CompareOp.GE if near > given else CompareOp.GT), near


_RANGES: dict[pa.DataType, tuple[int, int]] = {
    pa.int32(): INT_RANGES[Base.I32],
    pa.int64(): INT_RANGES[Base.I64],
    pa.uint32(): INT_RANGES[Base.U32],
    pa.uint64(): INT_RANGES[Base.U64],
}


# -- columns -------------------------------------------------------------------------------


def compare_constant(op: CompareOp, side: pa.Array, given: ConstValue) -> pa.Array:
    """Compare a column with a constant of any comparable type, which is not null."""
    op, found = _fitted(op, given, side.type)
    if not isinstance(found, _Verdict):
        return pc.call_function(_KERNELS[op], [side, pa.scalar(found, side.type)])
    truth = pa.scalar(found.truth)
    return pc.if_else(side.is_valid(), truth, pa.scalar(None, pa.bool_()))


def compare_columns(op: CompareOp, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare two columns of comparable types, row by row."""
    whole_left, whole_right = pa.types.is_integer(left.type), pa.types.is_integer(right.type)
    if whole_left and whole_right:
        return _compare_integers(op, left, right)
    if whole_left and left.type.bit_width == 64 and pa.types.is_floating(right.type):
        return _compare_mixed(op, left, right)
    if whole_right and right.type.bit_width == 64 and pa.types.is_floating(left.type):
        return _compare_mixed(op.swapped, right, left)
    if left.type != right.type and (pa.types.is_floating(left.type) or whole_left):
        # What is left are types that a double holds exactly.
        left, right = left.cast(pa.float64()), right.cast(pa.float64())
    return pc.call_function(_KERNELS[op], [left, right])


def _compare_integers(op: CompareOp, left: pa.Array, right: pa.Array) -> pa.Array:
    if left.type == right.type:
        return pc.call_function(_KERNELS[op], [left, right])
    if pa.types.is_uint64(right.type):
        return _compare_integers(op.swapped, right, left)
    if not pa.types.is_uint64(left.type):
        wide = pa.int64()
        return pc.call_function(_KERNELS[op], [left.cast(wide), right.cast(wide)])
    # A negative number is below all that are unsigned; the others can be compared as such.
    wide = right.cast(pa.int64())
    negative = pc.less(wide, 0)
    magnitude = pc.if_else(negative, pa.scalar(0, pa.int64()), wide).cast(pa.uint64())
    found = pc.call_function(_KERNELS[op], [left, magnitude])
    return pc.if_else(pc.and_(negative, left.is_valid()), pa.scalar(op in _BELOW), found)


def _compare_mixed(op: CompareOp, whole: pa.Array, real: pa.Array) -> pa.Array:
    """Compare 64-bit integers with floats, where neither type holds all values of the other."""
    low, high = _RANGES[whole.type]
    numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
    floats = real.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    floor = np.floor(floats)
    above, below = floor >= float(high + 1), floor < float(low)
    inside = ~(above | below | np.isnan(floats))
    level = np.zeros(len(floats), numbers.dtype)
    level[inside] = floor[inside].astype(numbers.dtype)
    less = above | (inside & ((numbers < level) | ((numbers == level) & (floats > floor))))
    more = below | (inside & (numbers > level))
    equal = inside & ~less & ~more
    match op:
        case CompareOp.EQ:
            truth = equal
        case CompareOp.NE:
            truth = ~equal
        case CompareOp.LT:
            truth = less
        case CompareOp.LE:
            truth = less | equal
        case CompareOp.GT:
            truth = more
        case CompareOp.GE:
            truth = more | equal
        case _:
            assert_never(op)
    null = pc.or_(whole.is_null(), real.is_null()).to_numpy(zero_copy_only=False)
    return pa.array(truth, mask=null)
