"""Keys in their short form are the same keys."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.dataplane.load.exchange import Emitter, Partition, SentKeys, key_rows
from omnigraph.dataplane.load.packing import PackedText, numbered, packed, unpacked
from omnigraph.dataplane.staging import LocalStaging, SharedStaging
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.root import Root

LOAD = UlidIds.seeded(1).new()

_tails = st.text(st.characters(codec="utf-8"), max_size=7)
_alike = st.builds(lambda head, tails: [head + tail for tail in tails], st.text(), st.lists(_tails))
_texts = st.one_of(_alike, st.lists(st.text(max_size=12)))


def _column(texts: list[str], skipped: int = 0) -> pa.Array:
    return pa.array([*["skipped"] * skipped, *texts], pa.string()).slice(skipped)


@given(_texts, st.integers(0, 3))
@example(["é" * 9, "é" * 8 + "ë"], 1)
@example(["", "\0", "\0\0"], 0)
@example(["prefix", "prefix-and-1"], 0)
def test_unpacking_gives_the_texts_back(texts: list[str], skipped: int) -> None:
    (column,) = packed([_column(texts, skipped)])
    assert unpacked(column).to_pylist() == texts
    assert unpacked(column.slice(len(texts) // 2)).to_pylist() == texts[len(texts) // 2 :]
    assert unpacked(column).type == pa.string()


@pytest.mark.parametrize(
    ("texts", "prefix"),
    [
        (["p0000001", "p0000002"], b"p"),
        (["1", "22", "7777777", ""], b""),
        (["person-1", "person-22", "person-4444444"], b"person-"),
        (["é1234567"], "é".encode()),
        (["aé123456"], b"a\xc3"),
    ],
)
def test_keys_that_begin_alike_are_packed(texts: list[str], prefix: bytes) -> None:
    (column,) = packed([_column(texts)])
    assert isinstance(column.type, PackedText)
    assert column.type.prefix == prefix


@pytest.mark.parametrize(
    "columns",
    [
        [["a0000000", "b0000000"]],
        [["a", "a0000000b"]],
        [["a0000000", "a0000001"], ["b0000000"]],
        [["short"], ["not so short"]],
        [["x" * 300 + "1", "x" * 300 + "2"]],
        [[]],
    ],
)
def test_others_stay_as_they_are(columns: list[list[str]]) -> None:
    given = [_column(texts) for texts in columns]
    assert all(one is other for one, other in zip(packed(given), given, strict=True))


def test_missing_texts_are_not_packed() -> None:
    (column,) = packed([pa.array(["a", None])])
    assert column.to_pylist() == ["a", None]


def test_numbers_of_different_meaning_never_come_together() -> None:
    one, other = packed([_column(["a0000000"])])[0], packed([_column(["b0000000"])])[0]
    assert one.storage.equals(other.storage)
    with pytest.raises(pa.ArrowInvalid):
        pa.concat_arrays([one, other])
    with pytest.raises(pa.ArrowInvalid):
        pa.concat_tables([pa.table({"k": one}), pa.table({"k": other})])


@given(st.lists(_texts, max_size=4))
@example([["p0000001", "p0000001"], ["p0000002", "p0000001"]])
@example([["a0000001"], ["b0000001"], ["a"]])
def test_equal_texts_have_equal_numbers(columns: list[list[str]]) -> None:
    chunks = [packed([_column(texts)])[0] for texts in columns]
    numbers, distinct = numbered(chunks)
    texts = [text for column in columns for text in column]
    assert unpacked(distinct).to_pylist() == list(dict.fromkeys(texts))
    known = unpacked(distinct).to_pylist()
    assert [known[number] for part in numbers for number in part.tolist()] == texts


@pytest.mark.parametrize("kind", [LocalStaging, SharedStaging])
def test_keys_of_several_forms_meet(
    tmp_path: Path, kind: type[LocalStaging] | type[SharedStaging]
) -> None:
    staging = kind(Root.parse(str(tmp_path)), LOAD)
    told = {1: ["a0000001", "a0000002"], 2: ["b0000001", "a0000001"], 3: ["b0000001", "x"]}
    sent: list[tuple[int, SentKeys]] = []
    for split, texts in told.items():
        emitter = Emitter(staging, 3)
        emitter.add("c", key_rows(pa.array(texts[:1]), np.array([1])))
        emitter.add("c", key_rows(pa.array(texts[1:]), np.array([2])))
        placed = emitter.close()
        sent += [
            (partition, SentKeys(split=split, staged_part=staged_part))
            for partition, staged_part in placed
        ]
    found: list[tuple[str, tuple[str, int]]] = []
    for partition in range(3):
        keys = Partition.of(staging, [each for at, each in sent if at == partition]).keys("c")
        texts = keys.whole().to_pylist()
        numbers, distinct = numbered(keys.chunks)
        known = unpacked(distinct).to_pylist()
        assert [known[number] for part in numbers for number in part.tolist()] == texts
        assert len(set(known)) == len(known)
        found += [(text, keys.origin(row)) for row, text in enumerate(texts)]
    assert sorted((int(label), line, text) for text, (label, line) in found) == [
        (split, line, text) for split, texts in told.items() for line, text in enumerate(texts, 1)
    ]
    staging.remove()


def test_more_than_a_column_holds_is_refused() -> None:
    storage = pa.array(np.full(1 << 23, 7 << 56, np.uint64))
    column = pa.ExtensionArray.from_storage(PackedText(b"x" * 250), storage)
    with pytest.raises(pa.ArrowCapacityError):
        unpacked(column)
