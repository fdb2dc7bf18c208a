"""The parts below a load: hashes, new ids, the exchange, staging, violations in a file."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.core.layout import STAGING
from omnigraph.dataplane.load.entities import new_ids
from omnigraph.dataplane.load.exchange import Emitter, Partition, SentKeys, key_rows
from omnigraph.dataplane.load.hashing import partitions_of
from omnigraph.dataplane.staging import LocalStaging, SharedStaging, Staging
from omnigraph.errors import ConstraintViolated, InvalidInput
from omnigraph.runtime.ids import UlidIds, is_ulid, time_ms
from omnigraph.store.root import Root
from tests.unit.dataplane.load.support import Lab, PicklingRunner, company, edge, person

LOAD = UlidIds.seeded(1).new()


# -- hashes ----------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=40), max_size=60), st.integers(0, 5), st.integers(1, 300))
@example(["é" * 400, "x" * 513, "y" * 8, "z" * 9, "", "x" * 512], 1, 64)
def test_equal_texts_share_a_partition_wherever_they_stand(
    texts: list[str], skipped: int, count: int
) -> None:
    whole = partitions_of([pa.array(texts, pa.string())], count)
    assert all(part < count for part in whole.tolist())
    alone = [int(partitions_of([pa.array([text])], count)[0]) for text in texts]
    assert whole.tolist() == alone
    part = pa.array([*["x"] * skipped, *texts], pa.string()).slice(skipped)
    assert partitions_of([part], count).tolist() == alone


def test_keys_are_spread() -> None:
    for texts in (
        [f"p{number}" for number in range(20_000)],
        [f"https://example.org/people/{number}/index.html" for number in range(20_000)],
        [f"{'x' * 700}{number:06d}" for number in range(20_000)],
        new_ids(LOAD, 3, np.arange(20_000)).to_pylist(),
    ):
        sizes = np.bincount(partitions_of([pa.array(texts)], 16), minlength=16)
        assert sizes.min() > 1_000
        assert sizes.max() < 1_500


def test_values_of_every_type_can_be_divided() -> None:
    zeros = partitions_of([pa.array([0.0, -0.0, None])], 7).tolist()
    assert zeros[0] == zeros[1]
    for values in (
        pa.array([1, -1, 2**63 - 1, None]),
        pa.array([0, 2**64 - 1], pa.uint64()),
        pa.array([True, False, None]),
        pa.array([1, None], pa.date32()),
        pa.array([1, None], pa.timestamp("ms", "UTC")),
        pa.array([1.5, None], pa.float32()),
    ):
        found = partitions_of([values, pa.array(["x"] * len(values))], 5)
        again = partitions_of([values.take(pa.array([0])), pa.array(["x"])], 5)
        assert (len(found), found[0]) == (len(values), again[0])


# -- ids -------------------------------------------------------------------------------------------


def test_new_ids_are_ulids_in_the_order_of_the_input() -> None:
    lines = np.array([1, 2, 31, 32, 1_023, 1_024, 1_000_000, 2**34])
    ids = [*new_ids(LOAD, 0, lines).to_pylist(), *new_ids(LOAD, 1, lines).to_pylist()]
    assert all(is_ulid(each) and time_ms(each) == time_ms(LOAD) for each in ids)
    assert ids == sorted(set(ids))
    assert ids[:8] == new_ids(LOAD, 0, lines).to_pylist()
    assert not set(ids) & set(new_ids(UlidIds.seeded(2).new(), 0, lines).to_pylist())
    assert new_ids(LOAD, 0, lines[:0]).to_pylist() == []
    # Many follow each other, so that some characters are the same in all of them.
    many = new_ids(LOAD, 2, np.arange(5_000, 9_000)).to_pylist()
    assert [new_ids(LOAD, 2, np.array([n])).to_pylist()[0] for n in (5_000, 8_999)] == [
        many[0],
        many[-1],
    ]


def test_a_split_has_room_for_many_lines_not_for_all() -> None:
    with pytest.raises(ValueError, match="lines"):
        new_ids(LOAD, 0, np.array([2**35]))


# -- staging and the exchange ----------------------------------------------------------------------


def _stagings(path: Path) -> list[Staging]:
    root = Root.parse(str(path))
    return [
        LocalStaging(root, LOAD),
        LocalStaging(root, LOAD, memory_bytes=0),
        pickle.loads(pickle.dumps(SharedStaging(root, LOAD))),
        SharedStaging(Root.parse("memory:///staging"), LOAD),
    ]


def _folder(path: Path) -> list[Path]:
    return [each for each in (path / STAGING).rglob("*") if each.is_file()]


@pytest.mark.parametrize("kind", range(4))
def test_what_is_staged_comes_back_and_goes(tmp_path: Path, kind: int) -> None:
    staging = _stagings(tmp_path)[kind]
    one = pa.table({"a": ["x", None, "é"], "b": [[1], [], None]})
    staged_part = staging.put({"one": one, "two": one.slice(1), "none": one.slice(0, 0)})
    assert staged_part.rows == {"one": 3, "two": 2}
    assert staging.get(staged_part) == {"one": one, "two": one.slice(1)}
    assert staging.get(staged_part, {"two", "none"}) == {"two": one.slice(1)}
    several = staging.put_all([{"a": one}, {"a": one.slice(1), "b": one}, {}])
    assert [staging.get(each) for each in several] == [
        {"a": one},
        {"a": one.slice(1), "b": one},
        {},
    ]
    assert [each.rows for each in several] == [{"a": 3}, {"a": 2, "b": 3}, {}]
    large = pa.table({"n": np.arange(300_000)})
    first, second = staging.put_all([{"n": large}, {"n": large.slice(7)}])
    assert staging.get_all([second, first]) == [{"n": large.slice(7)}, {"n": large}]
    assert bool(_folder(tmp_path)) == (kind in (1, 2))
    held = staging.get(staged_part)
    staging.remove()
    staging.remove()
    assert not _folder(tmp_path)
    assert held["one"] == one


@pytest.mark.parametrize("alone", [True, False])
def test_each_partition_gets_its_keys_in_order(tmp_path: Path, alone: bool) -> None:
    staging = LocalStaging(Root.parse(str(tmp_path)), LOAD)
    keys = [f"k{number % 50}" for number in range(200)]
    emitter = Emitter(staging, 4, is_alone=alone)
    for start in (0, 100):
        lines = np.arange(start + 1, start + 101)
        emitter.add("c", key_rows(pa.array(keys[start : start + 100]), lines))
    placed = emitter.close()
    # A task that is alone divides nothing as long as there is little.
    assert emitter.partitions == (1 if alone else 4)
    seen: dict[str, int] = {}
    for partition, staged_part in placed:
        got = Partition.of(staging, [SentKeys(split=7, staged_part=staged_part)]).keys("c")
        places = [got.origin(row) for row in range(got.count)]
        assert places == sorted(places)
        for key, (label, line) in zip(got.whole().to_pylist(), places, strict=True):
            assert (keys[line - 1], int(label)) == (key, 7)
            assert seen.setdefault(key, partition) == partition
    assert len(seen) == 50


def test_a_lot_of_keys_is_divided_even_by_a_task_that_is_alone(tmp_path: Path) -> None:
    staging = LocalStaging(Root.parse(str(tmp_path)), LOAD, memory_bytes=1 << 20)
    emitter = Emitter(staging, 4, is_alone=True)
    for start in range(0, 1_100_000, 100_000):
        texts = pa.array(np.arange(start, start + 100_000)).cast(pa.string())
        emitter.add("c", key_rows(texts, np.arange(start, start + 100_000)))
    placed = emitter.close()
    assert emitter.partitions == 4
    assert sum(staged_part.rows["c"] for _, staged_part in placed) == 1_100_000
    assert {partition for partition, _ in placed} == {0, 1, 2, 3}
    # The budget is small, so most of it is in files.
    assert _folder(tmp_path)
    staging.remove()


# -- all violations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms",
    [{}, {"split_bytes": 300, "partitions": 3}, {"partitions": 2, "runner": PicklingRunner()}],
)
def test_all_violations_go_to_a_file(lab: Lab, tmp_path: Path, terms: dict[str, Any]) -> None:
    lab.load([company("Acme")])
    lines = [
        *(person(f"p{number:02d}", age=200) for number in range(40)),
        *(edge("Knows", "p00", f"q{number}", id=f"k{number}") for number in range(40)),
        *(edge("Rates", f"p{number:02d}", "Acme", stars=1) for number in range(40)),
        *(company("Acme") for _ in range(20)),
    ]
    path = tmp_path / "violations.jsonl"
    with pytest.raises(ConstraintViolated) as caught:
        lab.load(lines, violations_max=10, violations_file=str(path), **terms)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(told) == caught.value.details["total"] == 100
    assert told[:10] == caught.value.violations
    assert [each["line"] for each in told] == [*range(1, 81), *range(121, 141)]
    assert [each["id"] for each in told[40:80]] == [f"k{number}" for number in range(40)]
    lab.check_clean()


def test_the_file_is_begun_before_the_load(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "violations.jsonl"
    lab.load([company("Acme")], violations_file=str(path))
    assert path.read_text() == ""
    with pytest.raises(InvalidInput):
        lab.load([company("Other")], violations_file=str(tmp_path / "no" / "folder"))
    assert set(lab.rows("node:Company")) == {"Acme"}
