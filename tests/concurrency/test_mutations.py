"""Changing queries at once: no lost update, no torn read, and no edge that leads nowhere."""

import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.failpoints import Fp
from omnigraph.core.repository import Repository
from omnigraph.errors import Busy, Code, Conflict, ConstraintViolated, PreconditionFailed
from omnigraph.exec.mutate.mutator import CommitTerms, MutationRequest, Mutator
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.runtime import failpoints
from omnigraph.store.root import Root
from tests.conformance.racing import in_processes, in_threads
from tests.graphs import audit, make, reopen, rows

SCHEMA = """
node Person { name: String @key  count: I64? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
PERSON, CITY, KNOWS, LIVES = "node:Person", "node:City", "edge:Knows", "edge:LivesIn"
ROUNDS = 6
LINK = ("insert Knows { from: $a, to: $b }", "$a: String, $b: String")
ADD = ("insert Person { name: $a }", "$a: String")
DROP = ("delete Person where name = $a", "$a: String")
SET = ("update Person set { count: $n } where name = $a", "$a: String, $n: I64")


class NoEmbedder:
    """Nothing here has a vector."""

    has_provider = False

    def embed_texts(self, *_: object) -> list[tuple[float, ...]]:
        raise AssertionError


def run(repo: Repository, query: tuple[str, str], given: dict[str, Any], **options: Any) -> Any:
    body, params = query
    catalog = repo.schema(repo.snapshot()).catalog
    (plan,) = compile_queries(f"query q({params}) {{ {body} }}", catalog)
    assert isinstance(plan, MutationPlan)
    mutator = Mutator(repo, NoEmbedder())
    retries = options.pop("retries", None)
    request = MutationRequest(
        plan=plan,
        params=bind(plan.params, given),
        catalog=catalog,
        terms=CommitTerms(**options),
    )
    return mutator.mutate(request, repo.snapshot(), retries=retries)


def whole(repo: Repository, snapshot: GraphVersion | None = None) -> bool:
    """Every edge of one snapshot leads from a node to a node."""
    pinned = snapshot or repo.snapshot()
    people, cities = (set(rows(repo, key, pinned)) for key in (PERSON, CITY))
    for key, targets in ((KNOWS, people), (LIVES, cities)):
        for row in rows(repo, key, pinned).values():
            if row["src"] not in people or row["dst"] not in targets:
                return False
    return True


@pytest.fixture
def root(tmp_path: Path) -> Root:
    place = Root.parse(str(tmp_path / "graph"))
    repo = make(place, SCHEMA)
    for name in "ab":
        run(repo, ADD, {"a": name})
    run(repo, ("insert City { name: $a }", "$a: String"), {"a": "c"})
    return place


# -- write skew ------------------------------------------------------------------------------------

_hooks: dict[StrEnum, Callable[[], None]] = {}


def _pass(point: StrEnum) -> None:
    hook = _hooks.pop(point, None)
    if hook is not None:
        hook()


failpoints.watch(_pass)


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    _hooks.clear()


# A writer stands still when its rows are staged, or when its tables have moved and nobody knows.
moments = pytest.mark.parametrize("moment", [Fp.STAGED, Fp.ARMED, Fp.LANDED])


@moments
def test_a_node_is_deleted_under_a_new_edge(root: Root, moment: Fp) -> None:
    """The edge was judged when its end was there; it must not be published when it is not."""
    linking, dropping = reopen(root), reopen(root)
    _hooks[moment] = lambda: run(dropping, DROP, {"a": "b"})
    # It starts over, as inserts do, and then it is told what is wrong.
    with pytest.raises(ConstraintViolated) as caught:
        run(linking, LINK, {"a": "a", "b": "b"})
    (violation,) = caught.value.violations
    assert violation["rule"] == "endpoint"
    after = reopen(root)
    assert set(rows(after, PERSON)) == {"a"}
    assert rows(after, KNOWS) == {}
    audit(after)


@moments
def test_an_edge_is_added_to_a_node_that_is_being_deleted(root: Root, moment: Fp) -> None:
    """The delete looked for edges before there was one; it must not go through without it."""
    linking, dropping = reopen(root), reopen(root)
    _hooks[moment] = lambda: run(linking, LINK, {"a": "a", "b": "b"})
    with pytest.raises(Conflict) as caught:
        run(dropping, DROP, {"a": "b"}, retries=0)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert [each["table_key"] for each in caught.value.conflicts] == [KNOWS]
    after = reopen(root)
    assert set(rows(after, PERSON)) == {"a", "b"}
    assert len(rows(after, KNOWS)) == 1
    assert whole(after)
    audit(after)
    # Said again, it takes the edge along.
    done = run(dropping, DROP, {"a": "b"})
    assert (done.affected_nodes, done.affected_edges) == (1, 1)
    assert whole(reopen(root))


@moments
def test_edges_of_any_type_and_end_are_safe(root: Root, moment: Fp) -> None:
    moving, dropping = reopen(root), reopen(root)
    live = ("insert LivesIn { from: $a, to: $b }", "$a: String, $b: String")
    _hooks[moment] = lambda: run(moving, live, {"a": "a", "b": "c"})
    done = run(dropping, ("delete City where name = $a", "$a: String"), {"a": "c"})
    assert (done.affected_nodes, done.affected_edges) == (1, 1)
    assert whole(reopen(root))
    audit(reopen(root))


def test_edges_and_other_nodes_do_not_disturb_each_other_for_long(root: Root) -> None:
    """A node comes between: the edge starts over and goes through."""
    linking, adding = reopen(root), reopen(root)
    _hooks[Fp.STAGED] = lambda: run(adding, ADD, {"a": "new"})
    run(linking, LINK, {"a": "a", "b": "b"})
    after = reopen(root)
    assert set(rows(after, PERSON)) == {"a", "b", "new"}
    assert len(rows(after, KNOWS)) == 1
    audit(after)


# -- many at once ----------------------------------------------------------------------------------


def patiently(action: Callable[[], Any]) -> Any:
    """Start over after a conflict, as a caller does; what a rule forbids is an answer, too."""
    for _ in range(2_000):
        try:
            return action()
        except (Conflict, Busy, PreconditionFailed):
            continue
        except ConstraintViolated:
            return None
    raise AssertionError("no progress")


def counted(repo: Repository) -> None:
    """Add one to a number, if nobody has changed anything since it was read."""
    snapshot = repo.snapshot()
    value = rows(repo, PERSON, snapshot)["a"]["count"] or 0
    run(repo, SET, {"a": "a", "n": value + 1}, if_commit=snapshot.head)


def contend(repo: Repository, racer: int) -> int:
    """Insert nodes and edges, count, and delete what others point at."""
    for number in range(ROUNDS):
        mine = f"{racer}-{number}"
        patiently(partial(run, repo, ADD, {"a": mine}))
        patiently(partial(run, repo, LINK, {"a": "a", "b": mine}))
        patiently(partial(counted, repo))
        if number % 2:
            other = f"{(racer + 1) % 4}-{number - 1}"
            patiently(partial(run, repo, LINK, {"a": mine, "b": other}))
            patiently(partial(run, repo, DROP, {"a": other}))
        assert whole(repo)
    return ROUNDS


def contend_in_process(starter: Any, racer: int, root: Root) -> int:
    repo = reopen(root)
    starter.wait()
    return contend(repo, racer)


def judge(root: Root, done: int) -> None:
    repo = reopen(root)
    audit(repo)
    assert whole(repo)
    assert rows(repo, PERSON)["a"]["count"] == done


@pytest.mark.parametrize("handles", ["one", "separate"])
def test_threads(root: Root, handles: str) -> None:
    shared = reopen(root)
    engines = [shared if handles == "one" else reopen(root) for _ in range(4)]
    judge(root, sum(in_threads(lambda racer: contend(engines[racer], racer), 4)))


def test_processes(root: Root) -> None:
    judge(root, sum(in_processes(contend_in_process, 2, root)))


def test_inserts_of_many_threads_all_get_through(root: Root) -> None:
    """No caller has to start over: neither for one type, nor for the same key."""
    repo = reopen(root)
    start = threading.Barrier(8)

    def add(racer: int) -> None:
        start.wait()
        for number in range(4):
            run(repo, ADD, {"a": f"{racer}-{number}"})
            run(repo, ADD, {"a": "same"})
            run(repo, LINK, {"a": "a", "b": f"{racer}-{number}"})

    in_threads(add, 8)
    assert len(rows(repo, PERSON)) == 2 + 8 * 4 + 1
    assert len(rows(repo, KNOWS)) == 8 * 4
    audit(reopen(root))


COMPARE = (
    "update Person set { count: $new } where name = $a and count = $old",
    "$a: String, $old: I64, $new: I64",
)


def increment(repo: Repository, racer: int) -> int:
    """Count on a row of one's own, and on a shared one by comparing; nobody starts over by hand."""
    own, wins = f"own{racer}", 0
    run(repo, ("insert Person { name: $a, count: 0 }", "$a: String"), {"a": own})
    for number in range(ROUNDS):
        done = run(repo, COMPARE, {"a": own, "old": number, "new": number + 1})
        assert done.affected_nodes == 1
        while True:
            old = rows(repo, PERSON)["shared"]["count"]
            if run(repo, COMPARE, {"a": "shared", "old": old, "new": old + 1}).affected_nodes:
                wins += 1
                break
    return wins


def increment_in_process(starter: Any, racer: int, root: Root) -> int:
    repo = reopen(root)
    starter.wait()
    return increment(repo, racer)


@pytest.mark.parametrize("racers", [8, pytest.param("4 processes", marks=pytest.mark.deep)])
def test_updates_of_many_all_get_through_and_none_is_lost(root: Root, racers: int | str) -> None:
    run(reopen(root), ("insert Person { name: $a, count: 0 }", "$a: String"), {"a": "shared"})
    if isinstance(racers, int):
        repo = reopen(root)
        wins = in_threads(lambda racer: increment(repo, racer), racers)
    else:
        wins = in_processes(increment_in_process, 4, root)
    assert set(wins) == {ROUNDS}
    found = rows(reopen(root), PERSON)
    assert found["shared"]["count"] == sum(wins)
    assert all(found[f"own{racer}"]["count"] == ROUNDS for racer in range(len(wins)))
    audit(reopen(root))


def test_readers_see_whole_commits(root: Root) -> None:
    """A node and its edge come together: whoever sees the one sees the other."""
    repo = reopen(root)
    both = (
        "insert Person { name: $a } insert Knows { from: $a, to: $a }",
        "$a: String",
    )
    over = threading.Event()

    def look() -> int:
        looks = 0
        while not over.is_set():
            snapshot = repo.snapshot()
            people = set(rows(repo, PERSON, snapshot)) - {"a", "b"}
            loops = {row["src"] for row in rows(repo, KNOWS, snapshot).values()}
            assert people == loops
            looks += 1
        return looks

    def write(racer: int) -> int:
        for number in range(8):
            run(repo, both, {"a": f"{racer}-{number}"})
        return 8

    def work(racer: int) -> int:
        if racer >= 6:
            return look()
        try:
            return write(racer)
        finally:
            with done:
                left[0] -= 1
                if not left[0]:
                    over.set()

    done, left = threading.Lock(), [6]
    assert all(in_threads(work, 8))
    assert len(rows(repo, PERSON)) == 2 + 6 * 8
