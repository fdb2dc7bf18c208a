"""Races on one table: exactly one winner per version, and nothing lost."""

from collections import Counter
from collections.abc import Callable

import pytest

from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables, open_tables
from tests.conformance.racing import (
    PEOPLE,
    create_once,
    first_landing,
    fork_once,
    in_processes,
    in_threads,
    land_rounds,
    merge_rounds,
    outcome,
    people,
    thread_starter,
)

THREADS, PROCESSES = 8, 4
ROUNDS = 4


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=False)


def by_threads(work: Callable[..., list[str]], *args: object) -> list[list[str]]:
    starter = thread_starter(THREADS)
    return in_threads(lambda racer: work(starter, racer, *args), THREADS)


def by_processes(work: Callable[..., list[str]], *args: object) -> list[list[str]]:
    return in_processes(work, PROCESSES, *args)


# Processes take long to start; those of whole graphs race daily.
contenders = pytest.mark.parametrize(
    "race",
    [
        pytest.param(by_threads, id="threads"),
        pytest.param(by_processes, id="processes", marks=pytest.mark.deep),
    ],
)


@contenders
def test_one_landing_per_version(
    race: Callable[..., list[list[str]]], tables: Tables, root: Root
) -> None:
    """Inserts and index builds compete for the same versions."""
    tables.create("t", PEOPLE, rows=people("first"))
    outcomes = race(land_rounds, root, ROUNDS)
    for number, round_ in enumerate(zip(*outcomes, strict=True), start=1):
        assert Counter(round_) == {str(number + 1): 1, "conflict": len(round_) - 1}
    assert tables.head("t") == ROUNDS + 1
    landed = [
        f"r{racer}-{number}"
        for number in range(1, ROUNDS + 1)
        for racer, mine in enumerate(outcomes)
        if mine[number - 1] != "conflict"
    ]
    found = [tables.transaction_uuid(Pin("t", version)) for version in range(2, ROUNDS + 2)]
    assert found == landed
    rows = set(tables.open(Pin("t", ROUNDS + 1)).read(["id"])["id"].to_pylist())
    inserted = {
        f"{uuid.partition('-')[2]}-{uuid[1:].partition('-')[0]}"
        for uuid in landed
        if int(uuid[1:].partition("-")[0]) % 4 != 3
    }
    assert rows == {"first"} | inserted


@contenders
def test_an_empty_table_takes_one_first_landing(
    race: Callable[..., list[list[str]]], tables: Tables, root: Root
) -> None:
    tables.create("t", PEOPLE)
    outcomes = [mine[0] for mine in race(first_landing, root)]
    assert Counter(outcomes) == {"2": 1, "conflict": len(outcomes) - 1}
    rows = tables.open(Pin("t", tables.head("t"))).read(["id"])["id"].to_pylist()
    assert rows == [f"by-{outcomes.index('2')}"]


@contenders
def test_one_winner_per_key(
    race: Callable[..., list[list[str]]], tables: Tables, root: Root
) -> None:
    tables.create("m", PEOPLE, primary_key="id")
    # The S3 server makes contenders for one object wait for seconds, so there are fewer rounds.
    keys = [f"k{number}" for number in range(ROUNDS if root.is_local else 2)]
    outcomes = race(merge_rounds, root, keys)
    table = tables.open(Pin("m", tables.head("m"))).read()
    rows = dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert table.num_rows == len(rows) == 2 * len(keys)
    for key, round_ in zip(keys, zip(*outcomes, strict=True), strict=True):
        assert Counter(answer.isdigit() for answer in round_) == {
            True: 1,
            False: len(round_) - 1,
        }
        assert {answer for answer in round_ if not answer.isdigit()} == {"conflict"}
        winner = next(racer for racer, answer in enumerate(round_) if answer.isdigit())
        assert rows[key] == winner
        assert f"{key}-own-{winner}" in rows


@contenders
def test_one_creation(race: Callable[..., list[list[str]]], tables: Tables, root: Root) -> None:
    outcomes = [mine[0] for mine in race(create_once, root)]
    assert Counter(outcomes) == {"1": 1, "exists": len(outcomes) - 1}
    assert tables.head("c") == 1
    rows = tables.open(Pin("c", 1)).read(["id"])["id"].to_pylist()
    assert rows == [f"by-{outcomes.index('1')}"]


def test_of_merges_of_different_keys_from_one_base_one_lands(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a", "b"))

    def merge(racer: int) -> str:
        rows = people(f"k{racer}", v=racer)
        return outcome(lambda: tables.merge_rows(Pin("m", 1), "id", rows))

    outcomes = in_threads(merge, THREADS)
    assert Counter(outcomes) == {"2": 1, "conflict": THREADS - 1}
    rows = tables.open(Pin("m", tables.head("m"))).read(["id"])["id"].to_pylist()
    assert sorted(rows) == ["a", "b", f"k{outcomes.index('2')}"]


def test_one_fork_per_name(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    starter = thread_starter(THREADS)

    def fork(_: int) -> str:
        starter.wait()
        return fork_once(tables)

    outcomes = in_threads(fork, THREADS)
    # A loser may come while the winner is half-way: then it hears of a conflict.
    assert Counter(outcomes)["made"] == 1
    assert set(outcomes) <= {"made", "exists", "conflict"}
    assert list(tables.forks("t")) == ["f"]
    assert tables.open(Pin("t", 1, "f")).row_count == 1
