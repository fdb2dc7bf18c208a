"""`graph.algorithms` in this process: types, directions, states, bounds, writing back."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Cancelled, Code, InvalidInput, LimitExceeded, NotFound

SCHEMA = """
node Person { name: String @key  rank: F64?  small: F32?  part: I64?  hops: I32?
              must: I64 @default(0) }
node Company { name: String @key  part: I64?  rank: F64? }
node Alone { title: String  part: I64? }
edge Knows: Person -> Person { km: F64?  word: String? }
edge WorksAt: Person -> Company { km: I32? }
"""
KNOWS = [("Ada", "Bo"), ("Bo", "Cy"), ("Cy", "Ada"), ("Cy", "Di"), ("Ed", "Ed")]
WORKS = [("Di", "Acme"), ("Ed", "Bolt")]
PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as made:
        made.load(
            {
                "Person": [{"name": name} for name in PEOPLE],
                "Company": [{"name": name} for name in ("Acme", "Bolt")],
                "Knows": [{"from": a, "to": b, "km": 1.5} for a, b in KNOWS],
                "WorksAt": [{"from": a, "to": b, "km": 2} for a, b in WORKS],
            }
        )
        yield made


def values(result: og.AlgorithmResult) -> dict[str, Any]:
    return {row["id"]: row[result.column] for row in result}


def stored(graph: og.Graph, name: str, branch: str = "main") -> Mapping[str, Any]:
    text = f"query q() {{ match {{ $p: Person }} return {{ $p.name as id, $p.{name} as v }} }}"
    return {row["id"]: row["v"] for row in graph.query(text, branch=branch)}


# -- what is computed ------------------------------------------------------------------------------


def test_components_of_one_type(graph: og.Graph) -> None:
    found = graph.algorithms.connected_components("Person", "Knows")
    assert values(found) == {"Ada": 0, "Bo": 0, "Cy": 0, "Di": 0, "Ed": 4, "Flo": 5}
    assert found.to_arrow().column_names == ["id", "component"]
    assert (found.engine, found.iterations, found.converged) == ("inprocess", None, True)
    assert found.commit == graph.snapshot().commit
    assert len(found) == 6


def test_types_are_numbered_one_after_the_other(graph: og.Graph) -> None:
    found = graph.algorithms.connected_components(edges=["WorksAt", "Knows"])
    rows = [(row["type"], row["id"], row["component"]) for row in found]
    assert rows == [
        ("Company", "Acme", 0),
        ("Company", "Bolt", 1),
        ("Person", "Ada", 0),
        ("Person", "Bo", 0),
        ("Person", "Cy", 0),
        ("Person", "Di", 0),
        ("Person", "Ed", 1),
        ("Person", "Flo", 7),
    ]


def test_without_types_the_whole_graph_counts(graph: og.Graph) -> None:
    found = graph.algorithms.connected_components()
    assert {row["type"] for row in found} == {"Company", "Person"}
    graph.load({"Alone": [{"title": "x"}]})
    found = graph.algorithms.connected_components()
    assert {row["type"] for row in found} == {"Alone", "Company", "Person"}


def test_edge_types_are_those_between_the_node_types(graph: og.Graph) -> None:
    only = graph.algorithms.connected_components("Company")
    assert values(only) == {"Acme": 0, "Bolt": 1}


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("out", {"Ada": 0, "Bo": 1, "Cy": 2, "Di": 3}),
        ("in", {"Ada": 0, "Bo": 2, "Cy": 1}),
        ("both", {"Ada": 0, "Bo": 1, "Cy": 1, "Di": 2}),
    ],
)
def test_distances_follow_the_direction(
    graph: og.Graph, direction: str, expected: Mapping[str, int]
) -> None:
    found = graph.algorithms.shortest_paths("Person", "Knows", sources="Ada", direction=direction)
    assert values(found) == {name: expected.get(name) for name in PEOPLE}


def test_distances_by_weight_over_several_types(graph: og.Graph) -> None:
    found = graph.algorithms.shortest_paths(
        edges=["Knows", "WorksAt"], sources={"Person": ["Bo"]}, weight="km"
    )
    known = {"Bo": 0, "Cy": 1.5, "Ada": 3, "Di": 3, "Acme": 5}
    assert values(found) == {name: known.get(name) for name in ["Acme", "Bolt", *PEOPLE]}
    near = graph.algorithms.shortest_paths(
        edges=["Knows", "WorksAt"], sources={"Person": ["Bo"]}, weight="km", distance_max=3
    )
    assert values(near)["Di"] == 3
    assert values(near)["Acme"] is None


def test_distances_by_weight_in_both_directions(graph: og.Graph) -> None:
    found = graph.algorithms.shortest_paths(
        "Person", "Knows", sources=["Ada", "Ed"], weight="km", direction="both"
    )
    assert values(found) == {"Ada": 0, "Bo": 1.5, "Cy": 1.5, "Di": 3, "Ed": 0, "Flo": None}


def test_triangles_and_labels(graph: og.Graph) -> None:
    triangles = graph.algorithms.triangle_counts("Person", "Knows")
    assert values(triangles) == {"Ada": 1, "Bo": 1, "Cy": 1, "Di": 0, "Ed": 0, "Flo": 0}
    labels = graph.algorithms.label_propagation("Person", "Knows", iterations=4)
    assert values(labels)["Ed"] == 4
    assert labels.iterations is not None


def test_ranks_sum_up_to_one_whatever_the_direction(graph: og.Graph) -> None:
    for direction in ("out", "in", "both"):
        for types in ("Knows", ["Knows", "WorksAt"]):
            found = graph.algorithms.pagerank(edges=types, direction=direction, iterations=1000)
            assert found.converged
            assert sum(values(found).values()) == pytest.approx(1, abs=1e-9)


def test_one_way_through_arrays_gives_what_the_other_gives(graph: og.Graph) -> None:
    """A single type uses the adjacency of queries; several are put together."""
    single = values(graph.algorithms.pagerank("Person", "Knows", direction="both"))
    graph.load({"Alone": []})
    several = graph.algorithms.pagerank(["Person", "Alone"], "Knows", direction="both")
    assert values(several) == pytest.approx(single)


# -- which state -----------------------------------------------------------------------------------


def test_branches_and_older_commits(graph: og.Graph) -> None:
    before = graph.snapshot().commit
    graph.branches.create("side")
    graph.mutate('query q() { insert Knows { from: "Ed", to: "Flo" } }', branch="side")
    side = graph.algorithms.connected_components("Person", "Knows", branch="side")
    assert values(side)["Flo"] == 4
    assert values(graph.algorithms.connected_components("Person", "Knows"))["Flo"] == 5
    old = graph.algorithms.connected_components("Person", "Knows", branch="side", at=before)
    assert values(old)["Flo"] == 5


def test_an_empty_graph(tmp_path: Path) -> None:
    with og.init(tmp_path / "e.omni", SCHEMA) as graph:
        run = graph.algorithms
        for result in (
            run.pagerank(),
            run.connected_components("Person"),
            run.label_propagation(),
            run.triangle_counts(),
        ):
            assert result.to_pylist() == []
            assert result.converged
        with pytest.raises(NotFound, match="no Person 'Ada'"):
            run.shortest_paths("Person", sources="Ada")
        assert run.pagerank("Person").write("rank").counts == {}


# -- results ---------------------------------------------------------------------------------------


def test_results_turn_into_tables(graph: og.Graph) -> None:
    found = graph.algorithms.shortest_paths("Person", "Knows", sources="Di")
    assert found.to_pandas()["id"].tolist() == PEOPLE
    assert found.to_polars()["distance"].to_list() == [None, None, None, 0, None, None]
    assert found.to_arrow().schema.types[1] == "int64"


def test_a_result_is_written_back_by_one_commit(graph: og.Graph) -> None:
    before = len(graph.commits.list())
    ranks = graph.algorithms.pagerank("Person", "Knows")
    done = ranks.write("rank")
    assert done.counts["node:Person"].updated == 6
    assert len(graph.commits.list()) == before + 1
    assert stored(graph, "rank") == values(ranks)
    assert stored(graph, "must") == dict.fromkeys(PEOPLE, 0)


def test_write_to_writes_every_type_at_once(graph: og.Graph) -> None:
    found = graph.algorithms.connected_components(edges=["Knows", "WorksAt"], write_to="part")
    assert found.written is not None
    assert {key: c.updated for key, c in found.written.counts.items()} == {
        "node:Person": 6,
        "node:Company": 2,
    }
    assert stored(graph, "part")["Flo"] == 7


def test_distances_and_narrow_floats_are_written(graph: og.Graph) -> None:
    graph.algorithms.shortest_paths("Person", "Knows", sources="Ada", write_to="hops")
    assert stored(graph, "hops") == {"Ada": 0, "Bo": 1, "Cy": 2, "Di": 3, "Ed": None, "Flo": None}
    ranks = graph.algorithms.pagerank("Person", "Knows", write_to="small")
    assert stored(graph, "small") == pytest.approx(values(ranks), rel=1e-6)


def test_nodes_that_are_gone_stay_gone_and_new_ones_stay_as_they_are(graph: og.Graph) -> None:
    ranks = graph.algorithms.pagerank("Person", "Knows")
    graph.mutate('query q() { delete Person where name = "Flo" }')
    graph.mutate('query q() { insert Person { name: "Gus" } }')
    done = ranks.write("rank")
    assert done.counts["node:Person"].updated == 5
    assert done.counts["node:Person"].inserted == 0
    now = stored(graph, "rank")
    assert "Flo" not in now
    assert now["Gus"] is None


def test_a_result_is_written_to_another_branch(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.algorithms.pagerank("Person", "Knows").write("rank", branch="side", actor="me")
    assert stored(graph, "rank") == dict.fromkeys(PEOPLE)
    assert None not in stored(graph, "rank", "side").values()
    assert graph.commits.list(branch="side")[0].actor == "me"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rnk", "did you mean.*rank"),
        ("part", "writes floats"),
        ("name", "is a key"),
    ],
)
def test_a_property_that_does_not_fit_is_refused_before_the_work(
    graph: og.Graph, name: str, said: str
) -> None:
    before = graph.snapshot().commit
    with pytest.raises(InvalidInput, match=said):
        graph.algorithms.pagerank("Person", "Knows", write_to=name)
    with pytest.raises(InvalidInput, match=said):
        graph.algorithms.pagerank("Person", "Knows").write(name)
    assert graph.snapshot().commit == before


def test_distances_need_a_property_that_may_be_null(graph: og.Graph) -> None:
    with pytest.raises(InvalidInput, match=r"must be I64\?"):
        graph.algorithms.shortest_paths("Person", "Knows", sources="Ada", write_to="must")


def test_a_handle_for_reading_writes_nothing(graph: og.Graph) -> None:
    with og.open(graph.uri, "r") as reader:
        found = reader.algorithms.pagerank("Person", "Knows")
        with pytest.raises(og.errors.Forbidden):
            found.write("rank")
        with pytest.raises(og.errors.Forbidden):
            reader.algorithms.pagerank("Person", "Knows", write_to="rank")


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"nodes": "Persn"}, "did you mean.*Person"),
        ({"edges": "Know"}, "did you mean.*Knows"),
        ({"nodes": []}, "name of a type"),
        ({"nodes": 3}, "name of a type"),
        ({"nodes": "Person", "edges": "WorksAt"}, "also lead to Company"),
        ({"damping": 1.0}, "damping is a number from 0 to below 1"),
        ({"damping": float("nan")}, "damping is a number"),
        ({"iterations": 0}, "iterations is a whole number"),
        ({"tolerance": "x"}, "tolerance is a number"),
        ({"direction": "up"}, "direction 'up' is not one of out, in, both"),
        ({"engine": "gpu"}, "engine 'gpu' is not one of"),
        ({"timeout": -1}, "a timeout is"),
    ],
)
def test_arguments_are_checked(graph: og.Graph, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        graph.algorithms.pagerank(**arguments)


def test_unknown_options_are_refused(graph: og.Graph) -> None:
    with pytest.raises(TypeError, match="brnch"):
        graph.algorithms.pagerank(brnch="main")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sources": "Zoe"}, "no Person 'Zoe'"),
        ({"sources": []}, "sources are ids"),
        ({"sources": {"Company": "Acme"}}, "sources are of Person"),
        ({"sources": "Ada", "weight": "word"}, r"String\?; weights are numbers"),
        ({"sources": "Ada", "weight": "miles"}, "no property 'miles'"),
        ({"sources": "Ada", "distance_max": -1}, "distance_max is a number"),
    ],
)
def test_arguments_of_paths_are_checked(
    graph: og.Graph, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidInput, NotFound), match=said):
        graph.algorithms.shortest_paths("Person", "Knows", **arguments)
    with pytest.raises(InvalidInput, match="say which"):
        graph.algorithms.shortest_paths(edges=["Knows", "WorksAt"], sources="Ada")


@pytest.mark.parametrize("weight", [None, -1.0])
def test_bad_weights_are_refused(graph: og.Graph, weight: float | None) -> None:
    graph.load({"Knows": [{"from": "Ed", "to": "Ada", "km": weight}]})
    with pytest.raises(InvalidInput, match="null or negative"):
        graph.algorithms.shortest_paths("Person", "Knows", sources="Ada", weight="km")


def test_memory_is_bounded(graph: og.Graph) -> None:
    with og.open(graph.uri, settings=og.Settings(query_bytes_max=1024)) as small:
        small.algorithms.connected_components("Company")
        with pytest.raises(LimitExceeded) as caught:
            small.algorithms.triangle_counts("Person", "Knows", engine="inprocess")
    assert caught.value.details["limit"] == "query_bytes_max"
    assert "6 vertices and 5 edges" in str(caught.value)
    assert 'engine="spark"' in str(caught.value)


def test_it_ends_early(graph: og.Graph) -> None:
    stop = og.CancelToken()
    stop.cancel()
    with pytest.raises(Cancelled):
        graph.algorithms.pagerank("Person", "Knows", cancel=stop)
    with pytest.raises(LimitExceeded) as caught:
        graph.algorithms.pagerank("Person", "Knows", timeout=1e-9)
    assert caught.value.code is Code.TIMEOUT


def test_a_closed_graph_is_closed(graph: og.Graph) -> None:
    graph.close()
    with pytest.raises(InvalidInput):
        graph.algorithms.pagerank("Person", "Knows")
