"""Rewrites of plans: the steps chosen for a query, and that all give the same rows."""

from typing import Any

import pytest

from omnigraph.errors import InvalidInput, LimitExceeded
from omnigraph.exec.read import shortcuts
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.program import Program, prepare
from omnigraph.exec.search.search import Search
from omnigraph.exec.tuning import tuned
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.runtime.clock import ManualClock
from omnigraph.testing.naive import Given, ModelGraph, evaluate
from omnigraph.testing.schemas import SOCIAL
from omnigraph.testing.strategies_graph import sample_graph
from tests.unit.exec.read.fake_view import FakeDense, FakeView

CATALOG = compile_schema(SOCIAL)
GRAPH = sample_graph(CATALOG, seed=3, nodes=9, edges=30)
ADA = {"n": "Ada"}


def program(body: str, params: str = "") -> Program:
    (plan,) = compile_queries(f"query q({params}) {{ {body} }}", CATALOG)
    assert isinstance(plan, ReadPlan)
    return prepare(plan, CATALOG)


def check(made: Program, given: dict[str, Any] | None = None) -> FakeView:
    """Run a program and compare with nested loops; the view tells what was asked of it."""
    params = bind(made.plan.params, given or {})
    view = FakeDense(CATALOG, GRAPH)
    found = made.run(view, params, 0, Search()).to_pylist()
    asked = list(view.asked)
    assert found == evaluate(made.plan, GRAPH, Given(params)), made.describe()
    view.asked = asked
    return view


def steps(made: Program) -> list[str]:
    return [type(step).__name__ for step in made.steps]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("match { $a: Person $a knows $b } return { count($b) as n }", ["HopFromAllStep"]),
        (
            "match { $a: Person $a knows $b $b knows $c } return { count($c) as n }",
            ["HopFromAllStep", "DegreeStep"],
        ),
        (
            "match { $a: Person $a.age > 0 $a knows $b } return { count($b) as n }",
            ["ScanStep", "DegreeStep"],
        ),
        (
            "match { $a: Person $a knows $b $a worksAt $c } return { $a.city, count($c) as n }",
            ["ScanStep", "DegreeStep", "DegreeStep"],
        ),
        (
            "match { $a: Person not { $a knows $b } } return { count($a) as n }",
            ["ScanStep", "UnlinkedStep"],
        ),
        (
            "match { $a: Person $a knows $b $b knows $c $a knows $c } return { count($c) as n }",
            ["ScanStep", "HopStep", "IntersectStep"],
        ),
        (
            "match { $a: Person $a knows $b $b knows $c $c knows $a } return { count($c) as n }",
            ["ScanStep", "HopStep", "IntersectStep"],
        ),
        (
            "match { $a: Person $b: Company $a.city = $b.name } return { $a.name, $b.name as b }",
            ["ScanStep", "JoinStep"],
        ),
        (
            "match { $a: Person $b: Company $a.age = $b.size } return { $a.name, $b.name as b }",
            ["ScanStep", "JoinStep"],
        ),
        (
            "match { $a: Person $b: Company $a.rating = $b.size } return { $a.name, $b.name as b }",
            ["ScanStep", "ScanStep", "FilterStep"],
        ),
        (
            "match { $a: Person $a knows $b } return { $a.name, $b.name as b }",
            ["ScanStep", "HopStep"],
        ),
        (
            "match { $a: Person $a knows {1,3} $b } return { $a.name, count($b) as n }",
            ["ScanStep", "MultiHopStep"],
        ),
        (
            "match { $a: Person $a worksAt {1,4} $b } return { $b.name, count($a) as n }",
            ["HopFromAllStep"],
        ),
        (
            "match { $a: Person optional { $a knows $b } } return { $a.name, count($b) as n }",
            ["ScanStep", "OptionalStep"],
        ),
        (
            "match { $a: Person $a $e: knows $b } return { $a.name, count($e) as n }",
            ["ScanStep", "DegreeStep"],
        ),
        ("match { $a: Person $b: Person } return { count($a) as n }", ["ScanStep", "ScanStep"]),
    ],
)
def test_ways(body: str, wanted: list[str]) -> None:
    made = program(body)
    assert steps(made) == wanted
    check(made)
    with tuned(probed_nodes_max=-1):
        check(made)


def test_counting_reads_no_columns() -> None:
    for body in (
        "match { $a: Person $a knows $b $b knows $c } return { count($c) as n }",
        "match { $a: Person $a knows $b $b knows $c } return { count(distinct $c) as n }",
        "match { $a: Person not { $a knows $b } } return { count($a) as n }",
    ):
        assert not [each for each in check(program(body)).asked if each.startswith("take")]


def test_whole_hops_ask_for_degrees_only() -> None:
    view = check(program("match { $a: Person $a knows $b $b knows $c } return { count($c) as n }"))
    assert set(view.asked) == {"degrees"}


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Person { name: $n } } return { $p.age }",
        "match { $p: Person $p.id = $n } return { $p.age }",
        "match { $p: Person $n = $p.name $p.age > 0 } return { $p.age }",
        'match { $p: Person $p.name in [$n, "b", $n, "nobody"] } return { $p.age }',
        "match { $p: Person { name: $n } $p knows $f } return { $f.name }",
    ],
)
def test_named_entities_are_found_not_scanned(body: str) -> None:
    made = program(body, "$n: String")
    assert made.selective
    view = check(made, ADA)
    assert "find" in view.asked
    assert "take Person.name" not in view.asked[: view.asked.index("find")]


def test_a_composite_key_is_found_by_its_parts() -> None:
    catalog = compile_schema("node Cell { x: I32  y: F64  note: String?  @key(x, y) }")
    graph = sample_graph(catalog)
    row = next(iter(graph.tables["node:Cell"].values()))
    body = "match { $c: Cell { y: $y, x: $x } } return { $c.note }"
    (plan,) = compile_queries(f"query q($x: I64, $y: F64) {{ {body} }}", catalog)
    assert isinstance(plan, ReadPlan)
    made = prepare(plan, catalog)
    for x, count in ((row["x"], 1), (2**40, 0)):
        view = FakeView(catalog, graph)
        params = bind(plan.params, {"x": x, "y": row["y"]})
        assert len(made.run(view, params, 0)) == count
        assert view.asked == (["find"] if count else [])


def test_rows_come_sorted_where_they_are_made_sorted() -> None:
    made = program(
        "match { $p: Person { name: $n } $p knows $f $f knows $g }"
        " return { $f.name, $g.name as g }",
        "$n: String",
    )
    view = check(made, ADA)
    assert "rank" not in view.asked


@tuned(top_factor=1, top_growth_factor=2)
def test_a_limit_follows_only_what_it_needs() -> None:
    body = "match { $a: Person $a knows $b } return { $a.name, $b.name as b } limit $n"
    made = program(body, "$n: I64")
    assert isinstance(made.shortcut, shortcuts.FirstIds)
    assert check(made, {"n": 1}).sources < len(GRAPH.tables["node:Person"])
    check(made, {"n": 0})
    check(made, {"n": 5})
    check(made, {"n": 1000})


@tuned(top_factor=1)
def test_the_best_are_followed_first() -> None:
    body = (
        "match { $d: Doc $a wrote $d } return { $d.slug, $a.name }"
        " order { nearest($d.embedding, [1.0, 0.5, 0.25]) } limit $n"
    )
    made = program(body, "$n: I64")
    assert isinstance(made.shortcut, shortcuts.BestFirst)
    assert check(made, {"n": 1}).sources < len(GRAPH.tables["node:Doc"])
    check(made, {"n": 4})
    check(made, {"n": 1000})


@tuned(top_factor=1)
def test_a_fusion_ranks_all_matches_and_follows_the_best() -> None:
    ranking = 'rrf(nearest($d.embedding, [1.0, 0.5, 0.25]), bm25($d.body, "graph data run"))'
    body = (
        "match { $d: Doc $a wrote $d $a.name != $no } return { $d.slug, $a.name,"
        f" {ranking} as score }} order {{ {ranking} }} limit $n"
    )
    made = program(body, "$n: I64, $no: String")
    assert isinstance(made.shortcut, shortcuts.FusedFirst)
    for count in (1, 2, 4, 1000):
        check(made, {"n": count, "no": "Ada"})


def test_a_cross_join_is_bounded() -> None:
    made = program("match { $a: Person $b: Person $c: Person } return { $a.name }")
    with pytest.raises(LimitExceeded) as caught:
        made.run(FakeView(CATALOG, GRAPH), {}, 0, None, Limits(frame_rows_max=50))
    assert caught.value.details == {"limit": "frame_rows_max", "most": 50}


def test_a_traversal_is_bounded() -> None:
    limits = Limits(frame_rows_max=7)
    for hops in ("knows", "knows {1,3}"):
        made = program(f"match {{ $a: Person $a {hops} $b }} return {{ $a.name, $b.age }}")
        with pytest.raises(LimitExceeded):
            made.run(FakeView(CATALOG, GRAPH), {}, 0, None, limits)


@pytest.mark.parametrize("word", ["limit", "offset"])
def test_bounds_are_not_negative(word: str) -> None:
    made = program(f"match {{ $a: Person }} return {{ $a.name }} {word} $n", "$n: I64")
    with pytest.raises(InvalidInput):
        made.run(FakeView(CATALOG, GRAPH), {"n": -1}, 0)


@pytest.mark.parametrize(
    ("tail", "wrong"),
    [
        ('$d: Doc fuzzy($d.body, "x", $n) } return { $d.slug }', (-1, 3)),
        ('$d: Doc not { $d cites $e not fuzzy($e.body, "x", $n) } } return { $d.slug }', (3,)),
        (
            "$d: Doc } return { $d.slug }"
            ' order { rrf(bm25($d.body, "x"), bm25($d.title, "x"), $n) } limit 1',
            (0, -5),
        ),
    ],
)
def test_settings_of_a_search_are_judged_without_data(tail: str, wrong: tuple[int, ...]) -> None:
    made = program(f"match {{ {tail}", "$n: I32")
    view = FakeView(CATALOG, ModelGraph({"node:Doc": {}, "edge:Cites": {}}))
    assert list(made.run(view, {"n": 1}, 0, Search())) == []
    for number in wrong:
        with pytest.raises(InvalidInput):
            made.run(view, {"n": number}, 0, Search())


def test_a_profile_tells_rows_of_every_step() -> None:
    made = program("match { $a: Person $a knows $b } return { $a.name, $b.name as b } limit 2")
    profile = Profile(ManualClock(0))
    rows = made.run(FakeView(CATALOG, GRAPH), {}, 0, None, Limits(), profile)
    assert [item.label for item in profile.entries] == [
        *(step.label for step in made.steps),
        "result",
    ]
    assert profile.entries[0].rows == len(GRAPH.tables["node:Person"])
    assert profile.entries[-1].rows == len(rows) == 2
    assert "expand a Knows out b" in str(profile)
    profile.restart("too wide")
    assert not profile.entries
    assert "too wide" in str(profile)


@pytest.mark.parametrize(
    ("body", "searches"),
    [
        ('match { $d: Doc search($d.body, "x") } return { $d.slug }', True),
        ('match { $d: Doc not { $d cites $e search($e.body, "x") } } return { $d.slug }', True),
        ('match { $d: Doc } return { bm25($d.body, "x") as score }', True),
        ("match { $d: Doc } return { $d.slug }", False),
    ],
)
def test_searching_is_known_beforehand(body: str, searches: bool) -> None:
    assert program(body).searches == searches
