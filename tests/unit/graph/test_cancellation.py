"""Timeouts and cancellation: where a call can end, and that nothing of it is left then."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.locks import writer_queue
from omnigraph.errors import Cancelled, Code, Effect, GraphError, InvalidInput, LimitExceeded
from omnigraph.types import AccessChoice, LoadMode

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [{"name": f"p{number:03}", "age": number, "bio": f"bio {number}"} for number in range(50)]
KNOWS = [{"from": f"p{number:03}", "to": f"p{number * 7 % 50:03}"} for number in range(50)]
QUERY = """
query q() {
  match {
    $a: Person
    $a.age > 10
    $a knows{1,3} $b
    not { $b knows $a }
  }
  return { $a.name as a, $b.bio as bio }
  order { $a.age }
}
"""
MORE = """
query more() {
  insert Person { name: "new" }
  update Person set { age: 1 } where bio != "bio 3"
}
"""
DROP = "query drop() { delete Person where age > 40 }"
AT_ONCE = 1e-9


class After(og.CancelToken):
    """Is cancelled once it was asked so many times."""

    __slots__ = ("asked", "checks")

    def __init__(self, checks: int) -> None:
        super().__init__()
        self.checks = checks
        self.asked = 0

    @property
    def cancelled(self) -> bool:
        self.asked += 1
        return self.asked > self.checks


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[og.Graph]:
    monkeypatch.chdir(tmp_path)
    with og.init("g.omni", SCHEMA) as graph:
        graph.load({"Person": PEOPLE, "Knows": KNOWS})
        yield graph


def ended_everywhere(call: Callable[[og.CancelToken], object], check: Callable[[], None]) -> int:
    """Cancel a call at each of its checks in turn, until it gets through; how many it has."""
    for checks in range(1_000):
        token = After(checks)
        ended: GraphError | None = None
        try:
            call(token)
        except GraphError as error:
            ended = error
        if ended is None:
            return checks
        assert (ended.code, ended.effect) == (Code.CANCELLED, Effect.NONE)
        check()
    raise AssertionError("the call never gets through")


def state(graph: og.Graph) -> tuple[object, ...]:
    commits = tuple(commit.id for commit in graph.commits.list())
    branches = tuple(graph.branches.list())
    return commits, branches, graph.snapshot().counts


@pytest.mark.parametrize("access", ["dense", "direct"])
def test_a_query_can_end_between_its_operators(graph: og.Graph, access: AccessChoice) -> None:
    whole = graph.query(QUERY).to_pylist()
    found: list[object] = []

    def call(token: og.CancelToken) -> None:
        with og.open("g.omni", "r") as fresh:
            found.append(fresh.query(QUERY, access=access, cancel=token).to_pylist())

    assert ended_everywhere(call, lambda: None) > 10
    assert found == [whole]


def test_what_was_loaded_for_a_cancelled_query_serves_the_next(graph: og.Graph) -> None:
    whole = graph.query(QUERY).to_pylist()
    with og.open("g.omni", "r") as fresh:
        found: list[object] = []
        ended_everywhere(lambda token: found.append(fresh.query(QUERY, cancel=token)), lambda: None)
        assert found == [whole]
        assert fresh.query(QUERY) == whole


def test_a_result_is_read_before_a_limited_call_returns(graph: og.Graph) -> None:
    token = og.CancelToken()
    rows = graph.snapshot().query(QUERY, timeout=1_000, cancel=token)
    token.cancel()
    assert rows.to_pylist() == graph.query(QUERY).to_pylist()
    assert rows.to_arrow().equals(graph.query(QUERY).to_arrow())


@pytest.mark.parametrize("text", [MORE, DROP])
def test_a_mutation_that_ends_early_changes_nothing(graph: og.Graph, text: str) -> None:
    before = state(graph)

    def check() -> None:
        assert state(graph) == before

    assert ended_everywhere(lambda token: graph.mutate(text, cancel=token), check) >= 4
    assert len(graph.commits.list()) == len(before[0]) + 1  # type: ignore[arg-type]
    assert graph.mutate('query q() { insert Person { name: "next" } }').commit is not None


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_that_ends_early_loads_nothing(graph: og.Graph, mode: LoadMode) -> None:
    before = state(graph)
    people = [{"name": f"q{number}"} for number in range(10)]
    source = {"Person": people, "Knows": [{"from": "q1", "to": "q2"}]}

    def check() -> None:
        assert state(graph) == before

    def call(token: og.CancelToken) -> None:
        graph.load(source, mode=mode, engine="inprocess", cancel=token)

    assert ended_everywhere(call, check) >= 4
    assert graph.load({"Person": [{"name": "next"}]}).commit is not None


def test_a_load_that_ends_early_leaves_no_branch(graph: og.Graph) -> None:
    before = state(graph)

    def check() -> None:
        assert state(graph) == before

    def call(token: og.CancelToken) -> None:
        source = {"Person": [{"name": "x"}]}
        graph.load(source, branch="draft", create_from="main", cancel=token)

    assert ended_everywhere(call, check) >= 4
    assert sorted(graph.branches.list()) == ["draft", "main"]


@pytest.mark.parametrize("target", ["out.jsonl", "parts/"])
def test_an_export_that_ends_early_leaves_no_file(graph: og.Graph, target: str) -> None:
    place = Path(target)

    def check() -> None:
        assert not place.is_file()
        assert not place.is_dir() or not list(place.iterdir())

    def call(token: og.CancelToken) -> None:
        graph.export(target, engine="inprocess", cancel=token)

    assert ended_everywhere(call, check) >= 3
    assert place.exists()


MAINTENANCE: dict[str, Callable[[og.Graph, og.CancelToken], object]] = {
    "optimize": lambda graph, token: graph.optimize(engine="inprocess", cancel=token),
    "ensure_indices": lambda graph, token: graph.ensure_indices(cancel=token),
}


@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_can_end_before_it_is_published(graph: og.Graph, name: str) -> None:
    before = state(graph)

    def check() -> None:
        assert state(graph) == before

    assert ended_everywhere(lambda token: MAINTENANCE[name](graph, token), check) >= 3
    assert len(graph.commits.list()) == len(before[0]) + 1  # type: ignore[arg-type]


CALLS: dict[str, Callable[[og.Graph, float], object]] = {
    "query": lambda graph, timeout: graph.query(QUERY, timeout=timeout),
    "snapshot": lambda graph, timeout: graph.snapshot().query(QUERY, timeout=timeout),
    "mutate": lambda graph, timeout: graph.mutate(MORE, timeout=timeout),
    "load": lambda graph, timeout: graph.load({"Person": [{"name": "x"}]}, timeout=timeout),
    "export": lambda graph, timeout: graph.export("out.jsonl", timeout=timeout),
    "optimize": lambda graph, timeout: graph.optimize(timeout=timeout),
    "ensure_indices": lambda graph, timeout: graph.ensure_indices(timeout=timeout),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_when_its_time_is_up(graph: og.Graph, name: str) -> None:
    before = state(graph)
    with pytest.raises(LimitExceeded, match="timeout of 1e-09 seconds") as caught:
        CALLS[name](graph, AT_ONCE)
    assert (caught.value.code, caught.value.effect) == (Code.TIMEOUT, Effect.NONE)
    assert caught.value.details == {"limit": "timeout", "most": AT_ONCE}
    assert state(graph) == before
    CALLS[name](graph, 1_000)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("timeout", [0, -1, "5", True, float("nan"), float("inf")])
def test_what_is_no_timeout(graph: og.Graph, name: str, timeout: float) -> None:
    with pytest.raises(InvalidInput, match="a timeout is a number of seconds above 0"):
        CALLS[name](graph, timeout)


def test_what_is_no_token(graph: og.Graph) -> None:
    with pytest.raises(InvalidInput, match="CancelToken"):
        graph.query(QUERY, cancel=threading.Event())  # type: ignore[arg-type]


class Met(og.CancelToken):
    """Waits, the first time that it is asked, until another thread has cancelled it."""

    __slots__ = ("answered", "asked")

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.answered = threading.Event()

    @property
    def cancelled(self) -> bool:
        self.asked.set()
        assert self.answered.wait(60)
        return super().cancelled


def test_another_thread_cancels_a_query(graph: og.Graph) -> None:
    token = Met()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(graph.query, QUERY, cancel=token)
        assert token.asked.wait(60)
        token.cancel()
        token.answered.set()
        assert isinstance(running.exception(60), Cancelled)
    with pytest.raises(Cancelled):
        graph.query(QUERY, cancel=token)


def test_a_write_does_not_wait_for_others_beyond_its_time(graph: og.Graph) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with writer_queue.writing(graph.uri, "main", ["node:Person"]):
            held.set()
            assert done.wait(60)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert held.wait(60)
        try:
            with pytest.raises(GraphError) as caught:
                graph.mutate(MORE, timeout=0.5)
        finally:
            done.set()
        holding.result(60)
    assert caught.value.code is Code.TIMEOUT
    assert graph.mutate(MORE).commit is not None
