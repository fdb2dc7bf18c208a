"""Batches of a stream: each is taken once, and none is left out."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.load.request import Loaded, StreamBatch
from omnigraph.errors import ConstraintViolated, InvalidInput
from tests.graphs import rows
from tests.unit.dataplane.load.support import PERSON, WAYS, Lab, Line, note, person

QUERY, ANOTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def take(
    lab: Lab,
    number: int,
    lines: list[Line],
    *,
    query: str | None = QUERY,
    mode: str = "merge",
    **terms: Any,
) -> Loaded:
    batch = StreamBatch(stream="s", number=number, query=query)
    return lab.load(lines, mode, batch=batch, **terms)


def age(lab: Lab, name: str) -> Any:
    return rows(lab.repo, PERSON)[name]["age"]


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_is_repeated_in_another_order_changes_nothing(
    lab: Lab, way: dict[str, Any]
) -> None:
    lines = [person(f"p{n}", age=n) for n in range(20)]
    first = take(lab, 0, lines, mode="append")
    again = take(lab, 0, lines[::-1], mode="append", **way)
    assert (again.replayed, again.commit) == (True, first.commit)
    assert first.commit.details["stream"] == {"name": "s", "query": QUERY, "batch": 0}


def test_rows_without_ids_are_taken_once(lab: Lab) -> None:
    first = take(lab, 0, [note("x"), note("y")], mode="append")
    assert take(lab, 0, [note("y"), note("x")], mode="append").commit == first.commit
    assert not take(lab, 1, [note("x"), note("y")], mode="append").replayed


@pytest.mark.parametrize("query", [QUERY, ANOTHER, None])
def test_other_rows_under_the_same_number_are_loaded(lab: Lab, query: str | None) -> None:
    take(lab, 0, [person("a", age=1)])
    done = take(lab, 0, [person("a", age=1), person("b", age=2)], query=query)
    assert not done.replayed
    assert age(lab, "b") == 2


def test_other_rows_under_the_same_number_are_refused_if_they_exist(lab: Lab) -> None:
    take(lab, 0, [person("a", age=1)], mode="append")
    with pytest.raises(ConstraintViolated, match="exists already"):
        take(lab, 0, [person("a", age=1), person("b", age=2)], mode="append")
    assert "b" not in rows(lab.repo, PERSON)


def test_the_same_rows_under_another_number_are_loaded(lab: Lab) -> None:
    for number, value in enumerate([1, 2, 1]):
        assert not take(lab, number, [person("a", age=value)]).replayed
    assert age(lab, "a") == 1


def test_a_query_without_its_checkpoint_repeats_what_another_one_brought(lab: Lab) -> None:
    for number, value in enumerate([1, 2]):
        take(lab, number, [person("a", age=value)])
    for number, value in enumerate([1, 2]):
        assert take(lab, number, [person("a", age=value)], query=ANOTHER).replayed
    assert age(lab, "a") == 2
    assert not take(lab, 2, [person("a", age=3)], query=ANOTHER).replayed


def test_what_a_query_brings_after_it_went_its_own_way_is_no_repetition(lab: Lab) -> None:
    for number, value in enumerate([1, 2]):
        take(lab, number, [person("a", age=value)])
    # Without its checkpoint, both files are in its first batch; then one comes that is like an old
    # one, and has the same number.
    take(lab, 0, [person("a", age=2), person("b", age=1)], query=ANOTHER)
    take(lab, 0, [person("a", age=7)], query=None)
    second = take(lab, 1, [person("a", age=2)], query=ANOTHER)
    assert not second.replayed
    assert age(lab, "a") == 2
    assert take(lab, 1, [person("a", age=2)], query=ANOTHER).commit == second.commit


def test_a_sink_takes_rows_of_any_kind_and_can_be_sent_elsewhere(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }") as graph:
        sink = graph.stream_sink("Person", stream="people", actor="spark")
        sink([{"name": "Ada", "age": 36}], 0)
        there = pickle.loads(pickle.dumps(sink))
        there([{"name": "Ada", "age": 36}], 0)
        there([{"name": "Bo"}], 1)
        commits = graph.commits.list()
        assert [commit.actor for commit in commits[:2]] == ["spark", "spark"]
        assert len(commits) == 3
        assert (commits[0].idempotency_key or "").startswith("stream:people:1:")
        assert graph.snapshot().counts == {"node:Person": 2}


@pytest.mark.parametrize("name", ["x" * 200, "a\nb"])
def test_names_of_streams(tmp_path: Path, name: str) -> None:
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        graph.stream_sink("Person", stream="x" * 190)
        with pytest.raises(InvalidInput, match="idempotency key"):
            graph.stream_sink("Person", stream=name)
