"""Fingerprints of rows: equal for the same rows in any order and division, different otherwise."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.decode.model import Decoded
from omnigraph.dataplane.load.fingerprint import NOTHING, Fingerprint, fingerprint, spelled, total
from omnigraph.lang import compile_schema
from tests.examples import examples

NODE = compile_schema(
    """
    node Thing {
        k: String @key  s: String?  i: I32?  u: U64?  f: F32?  b: Bool?  d: Date?  t: DateTime?
        tags: [String]?  numbers: [I64]?  v: Vector(2)?  data: Blob?
    }
    """,
    "<schema>",
).node_by_name["Thing"]
SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.large_binary() if field.name == "data" else field.type)
        for field in table_schema(NODE)
    ]
)
Row = dict[str, Any]


def decoded(rows: Sequence[Row], absent: dict[str, list[bool]] | None = None) -> Decoded:
    masks = {name: pa.array(mask) for name, mask in (absent or {}).items()}
    return Decoded(
        entity=NODE,
        rows=pa.Table.from_pylist(list(rows), SCHEMA),
        lines=np.arange(len(rows)),
        absent=masks,
    )


def of(*rows: Row) -> Fingerprint:
    return fingerprint(decoded(rows))


ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text(max_size=20)},
        optional={
            "s": st.none() | st.text(max_size=20),
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "u": st.none() | st.integers(0, 2**64 - 1),
            "f": st.none() | st.floats(width=32, allow_nan=False),
            "b": st.none() | st.booleans(),
            "tags": st.none() | st.lists(st.none() | st.text(max_size=9), max_size=3),
            "v": st.none() | st.just([1.0, 2.0]),
            "data": st.none() | st.binary(max_size=20),
        },
    ),
    max_size=12,
)


@examples(40)
@given(rows=ROWS, data=st.data())
def test_neither_order_nor_division_matter(rows: list[Row], data: st.DataObject) -> None:
    whole = of(*rows)
    mixed = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    assert total([of(*mixed[cut:]), of(*mixed[:cut])]) == whole
    table = pa.concat_tables([decoded(mixed[:cut]).rows, decoded(mixed[cut:]).rows])
    assert fingerprint(Decoded(entity=NODE, rows=table, lines=np.arange(len(rows)))) == whole
    padded = pa.concat_tables([decoded([{"id": "before"}]).rows, table]).combine_chunks().slice(1)
    assert fingerprint(Decoded(entity=NODE, rows=padded, lines=np.arange(len(rows)))) == whole


DIFFERENT: list[list[Row]] = [
    [],
    [{"id": "a"}],
    [{"id": "a"}, {"id": "a"}],
    [{"id": "a", "s": ""}],
    [{"id": "a", "s": "a"}],
    [{"id": "a", "s": "a" * 8}],
    [{"id": "a", "s": "a" * 9}],
    [{"id": "a", "s": "\0"}],
    [{"id": "a", "i": 0}],
    [{"id": "a", "i": 1}],
    [{"id": "a", "u": 1}],
    [{"id": "a", "f": 1.0}],
    [{"id": "a", "b": False}],
    [{"id": "a", "b": True}],
    [{"id": "a", "tags": []}],
    [{"id": "a", "tags": [None]}],
    [{"id": "a", "tags": [""]}],
    [{"id": "a", "tags": ["a", "b"]}],
    [{"id": "a", "tags": ["b", "a"]}],
    [{"id": "a", "tags": ["ab"]}],
    [{"id": "a", "tags": ["ab", ""]}],
    [{"id": "a", "numbers": [1, 2]}],
    [{"id": "a", "numbers": [2, 1]}],
    [{"id": "a", "v": [1.0, 2.0]}],
    [{"id": "a", "v": [2.0, 1.0]}],
    [{"id": "a", "data": b""}],
    [{"id": "a", "data": b"a"}],
    [{"id": "a", "s": "x" * 1000 + "y" + "x" * 1000}],
    [{"id": "a", "s": "x" * 1000 + "z" + "x" * 1000}],
    # The same values, put together otherwise.
    [{"id": "a", "i": 1}, {"id": "b", "i": 2}],
    [{"id": "a", "i": 2}, {"id": "b", "i": 1}],
    [{"id": "a", "s": "1", "i": 1}, {"id": "a"}],
    [{"id": "a", "s": "1"}, {"id": "a", "i": 1}],
]


def test_different_rows_have_different_fingerprints() -> None:
    found = [spelled(of(*rows)) for rows in DIFFERENT]
    same = [(a, b) for a, b in combinations(range(len(found)), 2) if found[a] == found[b]]
    assert not same
    assert all(len(text) == 32 for text in found)
    assert of() == NOTHING


def test_what_a_row_does_not_name_is_not_what_it_empties() -> None:
    rows: list[Row] = [{"id": "a"}, {"id": "b"}]
    named = fingerprint(decoded(rows))
    assert fingerprint(decoded(rows, {"s": [False, False]})) == named
    found = {fingerprint(decoded(rows, {"s": mask})) for mask in ([True, False], [False, True])}
    assert len({named, *found}) == 3


@pytest.mark.parametrize("count", [1 << 14, (1 << 14) + 1])
def test_many_rows_are_taken_in_blocks(count: int) -> None:
    rows = [{"id": f"{n}", "i": n} for n in range(count)]
    absent = {"s": [n % 3 == 0 for n in range(count)]}
    pieces = [
        fingerprint(decoded(rows[at : at + 5000], {"s": absent["s"][at : at + 5000]}))
        for at in range(0, count, 5000)
    ]
    assert fingerprint(decoded(rows, absent)) == total(pieces)


def test_it_stays_the_same_in_later_releases() -> None:
    row = {"id": "Ada", "s": "x", "i": 36, "f": 1.5, "b": True, "tags": ["a", None], "v": [1, 2]}
    assert spelled(of(row)) == "700300c8b95dcc193389d96296808491"
