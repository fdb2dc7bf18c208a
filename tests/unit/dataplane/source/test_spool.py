"""Batches are divided by the bytes that they have without dictionaries and runs."""

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.dataplane.source.spool import PIECE_BYTES, pieces, spelled_out_bytes

LARGE = "x" * (1 << 20)
CODES = pa.array([0] * 30 + [1] * 5_000, pa.int16())
CODED = pa.DictionaryArray.from_arrays(CODES, [LARGE, "y"])
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([30, 5_030], pa.int32()), [LARGE, "y"])


@pytest.mark.parametrize(
    "column",
    [
        CODED,
        RUNS,
        pa.StructArray.from_arrays([CODED], ["text"]),
        pa.ListArray.from_arrays(pa.array(range(5_031), pa.int32()), CODED),
        pa.DictionaryArray.from_arrays(CODES, pa.array([LARGE, "y"], pa.string_view())),
        pa.DictionaryArray.from_arrays(CODES, pa.array([[LARGE], ["y"]])),
        pa.array([LARGE] * 30 + ["y"] * 5_000),
    ],
    ids=lambda column: str(column.type).partition("<")[0],
)
def test_no_piece_is_large_once_it_is_spelled_out(column: Any) -> None:
    batch = pa.record_batch({"c": column})
    found = list(pieces(batch))
    assert sum(piece.num_rows for piece in found) == batch.num_rows
    assert spelled_out_bytes(batch) >= 30 << 20
    for piece in found:
        assert piece.num_rows == 1 or spelled_out_bytes(piece) <= PIECE_BYTES
    assert [row for piece in found for row in piece.column(0).to_pylist()] == column.to_pylist()


def test_values_that_are_absent_have_no_bytes() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([None, 0, 1], pa.int8()), [LARGE, None])
    assert spelled_out_bytes(pa.record_batch({"c": column})) < 2 * len(LARGE)
    assert list(pieces(pa.record_batch({"c": column[:0]}))) == []
