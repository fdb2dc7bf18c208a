"""The direct view says what the dense one says, and reads little for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.core.repository import Repository
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.direct.lookup import LookupBounds, LookupTooLarge
from omnigraph.exec.direct.view import DirectView, wanted_columns
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.search.search import Search
from omnigraph.exec.view import GraphView, Handles, NeighbourSlices
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.expr import Bm25, Const, EntityRef
from omnigraph.lang.ir.ops import ReadPlan, Towards
from omnigraph.lang.values import Base, ValueType
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from omnigraph.store.table import LIST_KEYS_MAX
from tests.graphs import Delta, make, write
from tests.unit.exec.dense.dense_graphs import (
    COMPANY,
    ENDS,
    KNOWS,
    PERSON,
    SCHEMA,
    WORKS_AT,
    knows,
    persons,
)

HOSTILE = ["o'hara", "a' OR '1'='1", '"', "`", "\\", "--", "%", "", " ", "é", "漢", "x;y", "\x00"]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return make(Root.parse(str(tmp_path / "graph")), SCHEMA)


def direct(
    repo: Repository,
    wanted: Mapping[str, tuple[str, ...]] | None = None,
    bounds: LookupBounds | None = None,
) -> DirectView:
    pinned = repo.snapshot()
    return DirectView(repo, pinned, repo.schema(pinned).catalog, wanted, bounds)


def dense(repo: Repository) -> GraphView:
    pinned = repo.snapshot()
    return ViewCache(repo).view(pinned, repo.schema(pinned).catalog)


def found(view: GraphView, entity: EntityRef, *ids: str) -> Handles:
    handles = view.find(entity, ids)
    assert (handles >= 0).all()
    return handles


def names(view: GraphView, entity: EntityRef, handles: Handles) -> list[Any]:
    return list(view.take(entity, "id", handles).to_pylist())


def spelled(
    view: GraphView, target: EntityRef, edge: EntityRef, slices: NeighbourSlices
) -> list[Any]:
    """Neighbour slices in terms of ids, source by source."""
    targets = names(view, target, slices.targets)
    links = [""] * len(targets) if slices.edges is None else names(view, edge, slices.edges)
    rows, start = [], 0
    for count in slices.counts.tolist():
        rows.append(list(zip(targets, links, strict=True))[start : start + count])
        start += count
    assert start == len(targets)
    return rows


def some_people(repo: Repository) -> None:
    write(
        repo,
        {
            "node:Person": Delta(
                insert=[
                    {"id": "zoë", "name": "zoë", "age": 1, "spot": [1.0, 2.0, 3.0]},
                    {"id": "anna", "name": "anna", "bio": "likes graphs", "tags": ["x", "y"]},
                    {"id": "Bo", "name": "Bo", "age": 3, "bio": "likes graphs and graphs"},
                ]
            ),
            "edge:Knows": knows(
                ("k1", "zoë", "anna"),
                ("k2", "zoë", "anna"),
                ("k0", "anna", "zoë"),
                ("k9", "Bo", "Bo"),
                ("k4", "zoë", "Bo"),
            ),
        },
    )


def test_entities_are_found_by_id_and_numbered_as_they_come(repo: Repository) -> None:
    some_people(repo)
    view = direct(repo, {"node:Person": ("age", "bio")})
    assert view.find(PERSON, ["zoë", "nobody", "anna", "zoë"]).tolist() == [0, -1, 1, 0]
    assert view.size(PERSON) == 3
    taken = np.array([1, -1, 0, 1], np.int32)
    assert view.take(PERSON, "age", taken).to_pylist() == [None, None, 1, None]
    assert view.take(PERSON, "spot", taken).to_pylist() == [None, None, [1.0, 2.0, 3.0], None]
    assert view.take(PERSON, "tags", taken[:1]).to_pylist() == [["x", "y"]]
    assert names(view, PERSON, taken) == ["anna", None, "zoë", "anna"]


def test_ranks_follow_ids_not_handles(repo: Repository) -> None:
    some_people(repo)
    view = direct(repo)
    handles = found(view, PERSON, "zoë", "anna", "Bo")
    assert view.rank(PERSON, handles).tolist() == [2, 1, 0]
    assert view.rank(PERSON, np.array([1, -1, 1], np.int32)).tolist() == [0, -1, 0]


def test_edges_of_all_ways(repo: Repository) -> None:
    some_people(repo)
    view = direct(repo)
    people = found(view, PERSON, "zoë", "Bo", "zoë")

    def near(towards: Towards) -> list[Any]:
        slices = view.neighbours(KNOWS, towards, people)
        return [[each for each, _ in row] for row in spelled(view, PERSON, KNOWS, slices)]

    assert near(Towards.OUT) == [["Bo", "anna"], ["Bo"], ["Bo", "anna"]]
    assert near(Towards.IN) == [["anna"], ["Bo", "zoë"], ["anna"]]
    assert near(Towards.BOTH) == [["Bo", "anna"], ["Bo", "zoë"], ["Bo", "anna"]]
    both = spelled(view, PERSON, KNOWS, view.edges(KNOWS, Towards.BOTH, people[:2]))
    assert both == [
        [("Bo", "k4"), ("anna", "k0"), ("anna", "k1"), ("anna", "k2")],
        [("Bo", "k9"), ("zoë", "k4")],
    ]


def test_the_whole_of_a_small_type_may_be_asked_for(repo: Repository) -> None:
    some_people(repo)
    view = direct(repo)
    everyone = np.arange(3, dtype=np.int32)
    ids = names(view, PERSON, everyone)
    assert sorted(ids) == ["Bo", "anna", "zoë"]
    assert names(direct(repo), PERSON, everyone) == names(direct(repo), PERSON, everyone)
    by_id = dict(zip(ids, view.degrees(KNOWS, Towards.OUT, None).tolist(), strict=True))
    assert by_id == {"Bo": 1, "anna": 1, "zoë": 2}
    assert view.take(COMPANY, "name", None).to_pylist() == []
    assert view.take(COMPANY, "name", np.array([-1], np.int32)).to_pylist() == [None]


def test_text_is_searched_with_the_statistics_of_the_type(repo: Repository) -> None:
    some_people(repo)
    ranking = Bm25("p", "bio", Const("graph", ValueType(Base.STRING)))
    numbers = []
    for view in (direct(repo), dense(repo)):
        people = found(view, PERSON, "anna", "Bo", "zoë")
        numbers.append(
            Search().values(ranking, PERSON, view, people, EvalContext({}, 0))[0].tolist()
        )
    assert numbers[0] == numbers[1]


def test_ids_are_never_read_as_conditions(repo: Repository) -> None:
    write(repo, {"node:Person": persons(*HOSTILE), "edge:Knows": _ring(HOSTILE)})
    view = direct(repo)
    for each in [*HOSTILE, "missing' OR ''='"]:
        (handle,) = view.find(PERSON, [each]).tolist()
        assert (handle >= 0) == (each in HOSTILE)
        if handle < 0:
            continue
        slices = view.neighbours(KNOWS, Towards.OUT, np.array([handle], np.int32))
        following = HOSTILE[(HOSTILE.index(each) + 1) % len(HOSTILE)]
        assert names(view, PERSON, slices.targets) == [following]


def _ring(ids: list[str]) -> Delta:
    return knows(*((f"e{n}", each, ids[(n + 1) % len(ids)]) for n, each in enumerate(ids)))


def test_more_than_the_bounds_is_too_wide(repo: Repository) -> None:
    write(repo, {"node:Person": persons(*(f"p{n:04}" for n in range(50)))})
    ids = [f"p{n:04}" for n in range(50)]
    assert len(direct(repo, bounds=LookupBounds(keys=50, rows=50)).find(PERSON, ids)) == 50
    with pytest.raises(LookupTooLarge):
        direct(repo, bounds=LookupBounds(keys=49)).find(PERSON, ids)
    with pytest.raises(LookupTooLarge):
        direct(repo, bounds=LookupBounds(rows=49)).find(PERSON, ids)
    with pytest.raises(LookupTooLarge):
        direct(repo, bounds=LookupBounds(rows=49)).take(PERSON, "name", None)


@pytest.mark.parametrize("rows", [LIST_KEYS_MAX * 2, LIST_KEYS_MAX * 3])
def test_long_lists_of_keys_are_cut_or_read_at_once(repo: Repository, rows: int) -> None:
    ids = [f"p{n:04}" for n in range(LIST_KEYS_MAX * 2 + 7)]
    write(repo, {"node:Person": persons(*ids), "edge:Knows": _ring(ids)})
    view = direct(repo, bounds=LookupBounds(keys=10_000, rows=rows * 3))
    asked = ids[: LIST_KEYS_MAX + 3]
    handles = found(view, PERSON, *asked)
    assert names(view, PERSON, handles) == asked
    following = found(view, PERSON, *ids[1 : LIST_KEYS_MAX + 4])
    assert view.linked(KNOWS, Towards.OUT, handles, following).all()
    assert not view.linked(KNOWS, Towards.IN, handles, following).any()


def test_a_query_reads_what_it_needs_in_one_go(repo: Repository) -> None:
    some_people(repo)
    ensure_indices(repo)
    text = "query q() { match { $p: Person { name: 'x' } $p knows $f } return { $p.age, $f.bio } }"
    catalog = repo.schema(repo.snapshot()).catalog
    (plan,) = compile_queries(text.replace("'", '"'), catalog)
    assert isinstance(plan, ReadPlan)
    wanted = wanted_columns(plan)
    view = direct(repo, wanted)
    with telemetry.counting() as calls:
        handles = found(view, PERSON, "zoë")
        assert view.take(PERSON, "age", handles).to_pylist() == [1]
        view.take(PERSON, "id", handles)
        view.take(PERSON, "bio", handles)
    assert calls.snapshot()["table.scan"] == 1


WAYS = [
    (KNOWS, Towards.OUT),
    (KNOWS, Towards.IN),
    (KNOWS, Towards.BOTH),
    (WORKS_AT, Towards.OUT),
    (WORKS_AT, Towards.IN),
]
NAMES = {PERSON: ["e", "B", "ä", "a'b", "c", "lone"], COMPANY: ["z", "y", "x"]}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("indexed", [False, True])
def test_both_views_give_the_same_answers(repo: Repository, seed: int, indexed: bool) -> None:
    people, firms = NAMES[PERSON], NAMES[COMPANY]
    pick = np.random.default_rng(seed).integers
    friends = [(people[pick(5)], people[pick(5)]) for _ in range(12)]
    jobs = [(people[pick(5)], firms[pick(2)]) for _ in range(5)]
    work = [{"id": f"w{n}", "src": src, "dst": dst} for n, (src, dst) in enumerate(jobs)]
    deltas = {
        "node:Person": persons(*people),
        "node:Company": Delta(insert=[{"id": each, "name": each} for each in firms]),
        "edge:Knows": knows(*((f"k{n}", src, dst) for n, (src, dst) in enumerate(friends))),
        "edge:WorksAt": Delta(insert=work),
    }
    write(repo, deltas)
    if indexed:
        ensure_indices(repo)
        # And some that the indexes do not cover.
        write(repo, {"edge:Knows": knows(("k-late", "lone", "e"))})
    one, other = direct(repo), dense(repo)
    for edge, towards in WAYS:
        source, target = ENDS[edge.name]
        if towards is Towards.IN:
            source, target = target, source
        for asked in (NAMES[source], NAMES[source][1:3], NAMES[source][:1] * 2, []):
            ends = [NAMES[target][pick(len(NAMES[target]))] for _ in asked]
            assert answers(one, edge, towards, (source, asked), (target, ends)) == answers(
                other, edge, towards, (source, asked), (target, ends)
            )


def answers(
    view: GraphView,
    edge: EntityRef,
    towards: Towards,
    sources: tuple[EntityRef, list[str]],
    targets: tuple[EntityRef, list[str]],
) -> list[Any]:
    """Everything that a view says about some edges, in terms of ids."""
    handles, ends = view.find(*sources), view.find(*targets)
    near, full = view.neighbours(edge, towards, handles), view.edges(edge, towards, handles)
    return [
        spelled(view, targets[0], edge, near),
        [sorted(row) for row in spelled(view, targets[0], edge, full)],
        view.degrees(edge, towards, handles).tolist(),
        view.linked(edge, towards, handles, ends).tolist(),
    ]
