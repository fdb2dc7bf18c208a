"""`graph.diff`: what changed between two states, for people and programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.dataplane.changes.table_changes import ChangeLimits
from omnigraph.exec.changes.diff import DiffRequest, GraphDiff
from omnigraph.runtime import telemetry
from omnigraph.runtime.ids import UlidIds

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  place: Vector(2)?  photo: Blob? }
node Note { title: String @key }
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
"""
START = """
query start() {
  insert Person { name: "Ada", age: 36, tags: ["a"], photo: "base64:aGVsbG8=" }
  insert Person { name: "Bo", age: 41, place: [1.0, 0.0] }
  insert Person { name: "Cy" }
  insert Knows { from: "Ada", to: "Bo" }
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.mutate(START)
        yield graph


def change(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def test_every_operation_with_its_values(graph: og.Graph) -> None:
    before = graph.snapshot()
    change(graph, 'update Person set { age: 37, tags: ["a", "b"] } where name = "Ada"')
    change(graph, 'delete Person where name = "Bo"')
    change(graph, 'insert Person { name: "Di", place: [0.0, 1.0] }')
    diff = graph.diff(before, "main")
    assert diff.counts == {
        "node:Person": og.ChangeCounts(inserted=1, updated=1, deleted=1),
        "edge:Knows": og.ChangeCounts(deleted=1),
    }
    ada, bo, di, knows = diff
    assert (ada.operation, ada.id, ada.changed) == ("update", "Ada", ("age", "tags"))
    assert ada.before is not None
    assert ada.after is not None
    assert (ada.before["age"], ada.after["age"]) == (36, 37)
    assert (ada.before["tags"], ada.after["tags"]) == (["a"], ["a", "b"])
    assert ada.after["photo"] == {"size": 5}
    assert (bo.operation, bo.after) == ("delete", None)
    assert bo.before is not None
    assert bo.before["place"] == [1.0, 0.0]
    assert (di.operation, di.before, di.changed) == ("insert", None, ())
    assert (knows.kind, knows.type, knows.operation) == ("edge", "Knows", "delete")
    assert knows.before == {"from": "Ada", "to": "Bo", "since": None}


def test_the_other_way_round_is_the_inverse(graph: og.Graph) -> None:
    graph.branches.create("draft")
    change(graph, 'update Person set { age: 1 } where name = "Cy"', "draft")
    change(graph, 'insert Note { title: "n" }', "draft")
    forth, back = list(graph.diff("main", "draft")), list(graph.diff("draft", "main"))
    inverse = {"insert": "delete", "delete": "insert", "update": "update"}
    assert [(item.id, item.before, item.after) for item in forth] == [
        (item.id, item.after, item.before) for item in back
    ]
    assert [inverse[item.operation] for item in forth] == [item.operation for item in back]


def test_rows_that_only_moved_are_no_changes(graph: og.Graph) -> None:
    before = graph.snapshot()
    for number in range(40):
        change(graph, f'insert Note {{ title: "n{number}" }}')
    change(graph, 'update Person set { age: 36 } where name = "Ada"')
    graph.ensure_indices()
    graph.optimize()
    assert graph.diff(before, "main").counts == {"node:Note": og.ChangeCounts(inserted=40)}


def test_a_blob_is_compared_by_its_content(graph: og.Graph) -> None:
    before = graph.snapshot()
    change(graph, 'update Person set { photo: "base64:aGVsbG8=" } where name = "Ada"')
    assert graph.diff(before, "main").is_empty
    change(graph, 'update Person set { photo: "base64:aGVsbG9=" } where name = "Ada"')
    assert graph.diff(before, "main").is_empty, "the same five bytes"
    change(graph, 'update Person set { photo: "base64:SGVsbG8=" } where name = "Ada"')
    (ada,) = graph.diff(before, "main")
    assert ada.changed == ("photo",)


def test_a_reload_of_the_same_data_changes_what_differs(graph: og.Graph) -> None:
    before = graph.snapshot()
    people = [{"name": "Ada", "age": 36, "tags": ["a"]}, {"name": "Bo", "age": 42}]
    graph.load({"Person": people}, mode="overwrite", cascade=True)
    found = {
        item.id: (item.operation, item.changed)
        for item in graph.diff(before)
        if item.kind == "node"
    }
    assert found == {
        "Ada": ("update", ("photo",)),
        "Bo": ("update", ("age", "place")),
        "Cy": ("delete", ()),
    }


def test_revisions(graph: og.Graph) -> None:
    change(graph, 'insert Note { title: "one" }')
    change(graph, 'insert Note { title: "two" }')
    ids = [commit.id for commit in graph.commits.list()]
    assert [item.id for item in graph.diff("main~2", "main~1")] == ["one"]
    assert [item.id for item in graph.diff("main~", "main")] == ["two"]
    assert [item.id for item in graph.diff(ids[1], ids[0])] == ["two"]
    assert [item.id for item in graph.diff(f"{ids[0]}~1", ids[0])] == ["two"]
    diff = graph.diff("main~1")
    assert (diff.older, diff.newer) == (ids[1], ids[0])
    with pytest.raises(og.errors.NotFound):
        graph.diff("main~99")
    with pytest.raises(og.errors.NotFound):
        graph.diff("nowhere")
    with pytest.raises(og.errors.InvalidInput):
        graph.diff("main~x")


def test_filters(graph: og.Graph) -> None:
    before = graph.snapshot()
    change(graph, 'insert Note { title: "n" }')
    change(graph, 'delete Person where name = "Ada"')
    assert list(graph.diff(before, types=["Note"]).counts) == ["node:Note"]
    assert [item.id for item in graph.diff(before, operations=["insert"])] == ["n"]
    assert graph.diff(before, operations=["update"]).is_empty
    assert graph.diff(before, operations=["delete"]).counts["node:Person"].deleted == 1
    with pytest.raises(og.errors.InvalidInput, match="no type"):
        graph.diff(before, types=["Nothing"])
    with pytest.raises(og.errors.InvalidInput, match="known: insert, update, delete"):
        graph.diff(before, operations=["upsert"])  # type: ignore[list-item]


def test_as_arrow_and_as_text(graph: og.Graph) -> None:
    before = graph.snapshot()
    change(graph, 'update Person set { age: null } where name = "Ada"')
    change(graph, 'insert Note { title: "n" }')
    diff = graph.diff(before)
    tables = diff.to_arrow()
    assert list(tables) == ["node:Note", "node:Person"]
    person = tables["node:Person"]
    assert person.column_names == ["operation", "id", "changed", "before", "after"]
    assert person.column("after").combine_chunks().field("age").to_pylist() == [None]
    assert str(diff) == (
        "node:Note  +1\n+ Note 'n'  title: 'n'\nnode:Person  ~1\n~ Person 'Ada'  age: 36 -> null\n"
    )
    assert "\x1b[33m~ Person" in diff.to_text(color=True)
    change(graph, 'insert Knows { from: "Bo", to: "Cy", since: date("2024-01-01") }')
    (knows,) = graph.diff("main~1", types=["Knows"])
    assert str(knows) == "+ Knows '[\"Bo\",\"Cy\"]'  'Bo' -> 'Cy'  since: 2024-01-01"
    assert str(graph.diff("main", "main")) == ""


def test_equal_states_read_no_table(graph: og.Graph) -> None:
    graph.branches.create("same")
    graph.snapshot("same")  # reads the manifest of the branch
    with telemetry.counting() as counts:
        assert graph.diff("main", "same").is_empty
    assert not [name for name in counts.snapshot() if name.startswith("table.scan")]


def test_a_snapshot_of_the_past_is_compared_on_a_read_only_handle(graph: og.Graph) -> None:
    first = graph.snapshot().commit
    change(graph, 'insert Note { title: "n" }')
    with og.open(graph.uri, mode="r") as reader:
        assert [item.id for item in reader.diff(first)] == ["n"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["main", "draft"]),
        st.sampled_from(["insert", "update", "delete", "link", "reload", "optimize"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


def state(snapshot: og.Snapshot) -> dict[tuple[str, str], Any]:
    people = snapshot.query("query q() { match { $p: Person } return { $p } }")
    edges = snapshot.query("query q() { match { $a: Person  $a $k: knows $b } return { $k } }")
    found = {("Person", row["p"]["id"]): row["p"] for row in people}
    return found | {("Knows", row["k"]["id"]): row["k"] for row in edges}


@given(steps=STEPS, small=st.booleans())
@settings(max_examples=5, deadline=None)
def test_a_diff_applied_to_one_state_gives_the_other(
    steps: list[tuple[str, str, int, int]], small: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("diff") / UlidIds().new()
    with og.init(str(path), schema=SCHEMA) as graph:
        graph.mutate(START)
        graph.branches.create("draft")
        seen = [graph.snapshot()]
        for branch, what, name, value in steps:
            step(graph, branch, what, f"p{name}", value)
            seen.append(graph.snapshot(branch))
        for older in (seen[0], seen[-1]):
            for newer in seen:
                check(
                    graph, older, newer, ChangeLimits(keys_max=2, batch_rows=1) if small else None
                )


def step(graph: og.Graph, branch: str, what: str, name: str, value: int) -> None:
    match what:
        case "insert":
            change(graph, f'insert Person {{ name: "{name}", age: {value} }}', branch)
        case "update":
            change(graph, f'update Person set {{ age: {value} }} where name = "{name}"', branch)
        case "delete":
            change(graph, f'delete Person where name = "{name}"', branch)
        case "link":
            change(graph, f'insert Person {{ name: "{name}" }}', branch)
            change(graph, f'insert Knows {{ from: "{name}", to: "{name}" }}', branch)
        case "reload":
            people = [{"name": name, "age": value}, {"name": "Ada", "age": 36, "tags": ["a"]}]
            graph.load({"Person": people}, mode="overwrite", cascade=True, branch=branch)
        case _:
            graph.optimize(branch=branch)


def check(
    graph: og.Graph, older: og.Snapshot, newer: og.Snapshot, limits: ChangeLimits | None
) -> None:
    before, after = state(older), state(newer)
    request = DiffRequest(
        older=older.pinned, newer=newer.pinned, catalog=graph._plans(newer.pinned).catalog
    )
    engine = GraphDiff(graph._repo, request, limits)
    diff = og.Diff(engine, older.commit, newer.commit, None)
    for item in diff:
        key = item.type, item.id
        assert (key in before) == (item.operation != "insert")
        if item.after is None:
            del before[key]
            continue
        image = {name: item.after[name] for name in item.after if name != "photo"}
        assert bool(item.changed) == (item.operation == "update")
        before[key] = {"id": item.id, **image}
    assert before == after
    totals = [counts.total for counts in diff.counts.values()]
    assert sum(totals) == sum(1 for _ in diff)


def test_a_diff_of_one_kind(tmp_path: Path) -> None:
    schema = "node N { name: String @key }\nedge E: N -> N"
    with og.init(str(tmp_path / "kinds.omni"), schema=schema) as graph:
        graph.load({"N": [{"name": "a"}], "E": [{"from": "a", "to": "a"}]})
        for kind, key in (("node", "node:N"), ("edge", "edge:E")):
            assert list(graph.diff("main~1", "main", kind=kind).counts) == [key]  # type: ignore[arg-type]
        with pytest.raises(og.errors.InvalidInput, match="kind"):
            graph.diff("main~1", "main", kind="thing")  # type: ignore[arg-type]


def test_entities_of_a_type_without_properties_come_and_go(tmp_path: Path) -> None:
    with og.init(str(tmp_path / "bare.omni"), schema="node Mark { }") as graph:
        cursor = graph.changes.poll(start="now").cursor
        graph.load({"Mark": [{"id": "x"}, {"id": "y"}]})
        graph.mutate('query q() { delete Mark where id = "y" }')
        changes = [str(change) for change in graph.diff("main~1", "main")]
        assert changes == ["- Mark 'y'"]
        assert [item.after for item in graph.changes.baseline()] == [{}]
        told = [str(event.change) for event in graph.changes.poll(cursor).events]
        assert told == ["+ Mark 'x'", "+ Mark 'y'", "- Mark 'y'"]
        assert [line.operation for line in graph.blame("Mark", "y")] == ["delete", "insert"]
