"""Rows of one type for large loads: in many files, in very little space, and to update them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.load.generate import ROWS_PER_GROUP, SEED, keys, once

SCHEMA: Final = """\
node Item {
  key: String @key
  value: I64
}
"""
FILES: Final = 2_000
FEW_FILES: Final = 4
LEAST: Final = 40_000  # rows, at whatever scale
_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


def pieces(folder: Path, scale: float) -> tuple[int, int]:
    """Write 24 million rows times `scale` into few files, and into up to 2,000; how many of both.

    The keys are in no order.
    """
    rows = max(LEAST, round(24_000_000 * scale))
    count = max(FEW_FILES, round(FILES * min(1.0, scale)))

    def make() -> None:
        rng = np.random.default_rng(SEED)
        numbers = rng.permutation(rows)
        for name, files in (("few", FEW_FILES), ("many", count)):
            (folder / name).mkdir()
            for number, part in enumerate(np.array_split(numbers, files)):
                path = folder / name / f"part-{number:06d}.parquet"
                pq.write_table(_items(part, part), path, row_group_size=ROWS_PER_GROUP)

    once(folder, {"rows": rows, "files": count}, make)
    return rows, count


def packed(folder: Path, scale: float) -> int:
    """Write 16 million rows times `scale` into one file of half a byte per row; how many."""
    rows = max(LEAST, round(16_000_000 * scale))

    def make() -> None:
        part = np.arange(rows)
        pq.write_table(
            _items(part, part // ROWS_PER_GROUP),
            folder / "Item.parquet",
            row_group_size=ROWS_PER_GROUP,
            use_dictionary=False,
            column_encoding={"key": "DELTA_BYTE_ARRAY", "value": "DELTA_BINARY_PACKED"},
            compression="zstd",
        )

    once(folder, {"rows": rows}, make)
    return rows


def updated(folder: Path, scale: float) -> int:
    """Write 12 million rows times `scale`, and new values for all of them in another order."""
    rows = max(LEAST, round(12_000_000 * scale))

    def make() -> None:
        rng = np.random.default_rng(SEED)
        write: Callable[..., None] = partial(pq.write_table, row_group_size=ROWS_PER_GROUP)
        for name in ("base", "change"):
            numbers = rng.permutation(rows)
            values = rng.integers(0, rows, rows)
            write(_items(numbers, values), folder / f"{name}.parquet")

    once(folder, {"rows": rows}, make)
    return rows


def _items(numbers: _Numbers, values: _Numbers) -> pa.Table:
    return pa.table({"key": keys("i", numbers), "value": pa.array(values)})
