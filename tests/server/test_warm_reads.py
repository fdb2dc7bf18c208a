"""Reads that the loop answers itself: when, for how long, and never with an old state."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.policy.authorization import AccessRequest
from omnigraph.runtime.clock import ManualClock
from omnigraph.server import querying
from omnigraph.server.warm_reads import WarmReads
from tests.server.support import G, config_of, send
from tests.serving import Served, serving

ONE = "query one($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"


class Watched:
    """A policy that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[AccessRequest] = []

    def authorise(self, request: AccessRequest) -> None:
        self.asked.append(request)


@pytest.fixture
def policy() -> Watched:
    return Watched()


@pytest.fixture
def served(tmp_path: Path, policy: Watched) -> Iterator[Served]:
    with serving(config_of(tmp_path), policy=policy) as found:
        with og.open(tmp_path / "g.omni") as graph:
            graph.mutate('query add() { insert Person { name: "Ada", age: 36 } }')
        yield found


@pytest.fixture
def on_threads(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that threads for reads take over."""
    seen: list[Any] = []
    pool = served.server.pools["read"]
    run = pool.run

    async def noted(work: Any, argument: Any) -> Any:
        seen.append(argument)
        return await run(work, argument)

    monkeypatch.setattr(pool, "run", noted)
    return seen


def age(served: Served, name: str = "Ada", **more: Any) -> list[Any]:
    status, _, found = send(
        served, "POST", f"{G}/query", {"query": ONE, "params": {"n": name}, **more}
    )
    assert status == 200, found
    return [row["age"] for row in json.loads(found)["rows"]]


def test_what_was_read_at_once_is_read_by_the_loop(
    served: Served, on_threads: list[Any], policy: Watched
) -> None:
    while len(on_threads) < 8 and len(policy.asked) < 40:
        assert age(served) == [36]
    before, asked = len(on_threads), len(policy.asked)
    assert (age(served), age(served, "Bo")) == ([36], [])
    assert len(on_threads) == before
    assert len(policy.asked) == asked + 4  # for the branch, and for the types
    assert age(served, branch="main") == [36]
    assert len(on_threads) == before + 1  # it is known by its branch


def test_a_commit_of_somebody_else_is_seen_by_the_next_read(
    served: Served, on_threads: list[Any], tmp_path: Path
) -> None:
    with og.open(tmp_path / "g.omni") as graph:
        for year in range(37, 40):
            for _ in range(4):
                age(served)
            text = f'query older() {{ update Person set {{ age: {year} }} where name = "Ada" }}'
            graph.mutate(text)
            before = len(on_threads)
            assert age(served) == [year]
            assert len(on_threads) == before + 1


def test_a_branch_that_is_gone_is_not_read(served: Served, tmp_path: Path) -> None:
    with og.open(tmp_path / "g.omni") as graph:
        graph.branches.create("side")
        for _ in range(4):
            assert age(served, branch="side") == [36]
        graph.branches.delete("side")
    body = {"query": ONE, "params": {"n": "Ada"}, "branch": "side"}
    assert send(served, "POST", f"{G}/query", body)[0] == 404


def test_a_read_that_takes_too_long_goes_back_to_the_threads(
    served: Served, on_threads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        age(served)
    monkeypatch.setattr(querying, "LOOP_SECONDS", 0)
    for _ in range(3):
        before = len(on_threads)
        assert age(served) == [36]
        assert len(on_threads) == before + 1


def test_a_mistake_is_told_by_the_loop_as_by_a_thread(served: Served) -> None:
    for _ in range(4):
        age(served)
    wrong = {"query": ONE, "params": {"n": 7}}
    first = json.loads(send(served, "POST", f"{G}/query", wrong)[2])
    assert first["graph_error"]["code"] == "params_invalid"


def test_a_read_that_took_long_once_comes_back_soon(tmp_path: Path) -> None:
    clock, query = ManualClock(now_us=1), ("text", None)
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        pinned = graph.snapshot()
        warm = WarmReads(clock, is_near=True)

        def comes_back(milliseconds: int) -> bool:
            clock.advance(milliseconds * 1_000)
            warm.note("ada", None, query, pinned, 1)
            return warm.find("ada", None, query) is pinned

        assert comes_back(0)
        waits = []
        for _ in range(6):
            warm.forget(query)
            waits.append(next(wait for wait in range(50, 20_000, 50) if comes_back(50)))
        assert waits == [50, 250, 1_250, 6_250, 10_000, 10_000]
        clock.advance(60_000_000)
        warm.forget(query)
        assert (comes_back(49), comes_back(1)) == (False, True)
