"""What the facade adds to the layers below it: pinning, history, branches, blobs, explaining."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.exec.tuning import tuned
from omnigraph.runtime import telemetry

SCHEMA = """
node Person { name: String @key  age: I32? }
node File { path: String @key  content: Blob? }
edge Knows: Person -> Person
edge Owns: Person -> File { proof: Blob? }
"""
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
TWO = ALL + "\n" + ADD
ANY: Any = og  # for calls that no type checker would let pass


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", SCHEMA)


def names(rows: og.Rows) -> list[str]:
    return [row["name"] for row in rows]


def test_a_snapshot_stays_where_it_is(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada"})
    before = graph.snapshot()
    graph.mutate(ADD, {"n": "Bo"})
    assert names(before.query(ALL)) == ["Ada"]
    assert names(graph.query(ALL)) == ["Ada", "Bo"]
    assert before.commit != graph.snapshot().commit
    assert before.counts["node:Person"] == 1
    assert repr(before) == f"Snapshot(branch='main', commit='{before.commit}')"


def test_the_past_by_commit_and_by_version(graph: og.Graph) -> None:
    first = graph.mutate(ADD, {"n": "Ada"}).commit
    assert first is not None
    version = graph.snapshot().version
    graph.mutate(ADD, {"n": "Bo"})
    assert names(graph.query(ALL, at=first.id)) == ["Ada"]
    assert names(graph.snapshot(version=version).query(ALL)) == ["Ada"]
    with pytest.raises(og.errors.InvalidInput, match="not both"):
        graph.snapshot(at=first.id, version=version)
    with pytest.raises(og.errors.NotFound):
        graph.query(ALL, at="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(og.errors.InvalidInput):
        graph.query(ALL, at="not a commit")
    with pytest.raises(og.errors.NotFound):
        graph.snapshot(version=999)


USES: dict[str, Callable[[og.Graph], object]] = {
    "dense": lambda graph: graph.query(ALL, access="dense").to_pylist(),
    "direct": lambda graph: graph.query(ALL, access="direct").to_pylist(),
    "write": lambda graph: graph.mutate(ADD, {"n": "Bo"}),
}


@pytest.mark.parametrize("use", USES)
def test_a_version_that_a_head_needs_and_that_is_missing_is_corrupt(
    tmp_path: Path, use: str
) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.mutate(ADD, {"n": "Ada"})
        pin = graph.snapshot()._pinned.tables["node:Person"]
    (newest, *_) = sorted((tmp_path / "g" / pin.path / "_versions").glob("*.manifest"))
    newest.unlink()
    with og.open(tmp_path / "g") as graph, pytest.raises(og.errors.Corrupt) as caught:
        USES[use](graph)
    assert caught.value.details["path"] == newest.relative_to(tmp_path / "g").as_posix()


def test_branches_are_made_shown_and_deleted(graph: og.Graph) -> None:
    first = graph.mutate(ADD, {"n": "Ada"}).commit
    graph.mutate(ADD, {"n": "Bo"})
    assert first is not None
    made = graph.branches.create("agent/42", at=first.id)
    assert made == og.Branch(name="agent/42", parent="main", head=first.id)
    assert names(graph.query(ALL, branch="agent/42")) == ["Ada"]
    graph.mutate(ADD, {"n": "Cy"}, branch="agent/42")
    assert names(graph.query(ALL, branch="agent/42")) == ["Ada", "Cy"]
    assert names(graph.query(ALL)) == ["Ada", "Bo"]
    assert graph.branches.list() == ["agent/42", "main"]
    graph.branches.delete("agent/42")
    with pytest.raises(og.errors.NotFound, match="agent/42"):
        graph.query(ALL, branch="agent/42")
    with pytest.raises(og.errors.InvalidInput):
        graph.query(ALL, branch="no//name")


def test_commits_tell_who_when_and_what(graph: og.Graph) -> None:
    done = graph.mutate(ADD, {"n": "Ada"}, actor="ada", idempotency_key="k1").commit
    assert done is not None
    assert graph.commits.show(done.id) == done
    assert (done.actor, done.branch, done.kind) == ("ada", "main", "mutation")
    assert done.idempotency_key == "k1"
    assert timedelta() <= datetime.now(UTC) - done.created_at < timedelta(minutes=5)  # noqa: TID251
    newest, oldest = graph.commits.list()
    assert newest == done
    assert done.parent_id == oldest.id
    assert oldest.parent_id is None


def test_a_key_makes_a_retry_harmless(graph: og.Graph) -> None:
    first = graph.mutate(ADD, {"n": "Ada"}, idempotency_key="k")
    again = graph.mutate(ADD, {"n": "Ada"}, idempotency_key="k")
    assert again.replayed
    assert not first.replayed
    assert (again.commit, again.affected_nodes) == (first.commit, first.affected_nodes)


def test_a_condition_on_the_head(graph: og.Graph) -> None:
    seen = graph.snapshot().commit
    graph.mutate(ADD, {"n": "Ada"}, if_commit=seen)
    with pytest.raises(og.errors.PreconditionFailed):
        graph.mutate(ADD, {"n": "Bo"}, if_commit=seen)
    assert names(graph.query(ALL)) == ["Ada"]


def test_a_text_with_several_queries(graph: og.Graph) -> None:
    graph.mutate(TWO, {"n": "Ada"}, name="add")
    assert names(graph.query(TWO, name="all")) == ["Ada"]
    with pytest.raises(og.errors.InvalidInput, match="several queries"):
        graph.query(TWO)
    with pytest.raises(og.errors.InvalidInput, match="run it with `mutate`"):
        graph.query(TWO, {"n": "x"}, name="add")
    with pytest.raises(og.errors.InvalidInput, match="run it with `query`"):
        graph.mutate(TWO, name="all")
    with pytest.raises(og.errors.InvalidInput, match="is a text"):
        graph.query(None)  # type: ignore[arg-type]


def test_explain_and_profile_tell_the_path(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada"})
    text = graph.explain(ALL)
    assert text.startswith("read all()")
    assert "dense" in text
    profile = graph.profile(ALL, access="direct")
    assert profile.path == "direct"
    assert names(profile.rows) == ["Ada"]
    assert [entry.rows for entry in profile.entries][-1] == 1
    assert graph.profile(ALL).path == "dense"
    assert graph.explain(ADD).startswith("mutation add(")
    with pytest.raises(og.errors.InvalidInput, match="known: auto, dense, direct"):
        graph.query(ALL, access="magic")  # type: ignore[arg-type]


def test_indices_are_built_once_and_change_no_answer(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada", "a": 36})
    made = graph.ensure_indices(actor="keeper")
    assert made.commit is not None
    assert made.commit.actor == "keeper"
    assert ("node:Person", "id_ordered") in made.built
    assert graph.ensure_indices().commit is None
    assert names(graph.query(ALL)) == ["Ada"]


def test_results_in_every_form(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada", "a": 36})
    rows = graph.query("query q() { match { $p: Person } return { $p, $p.age as age } }")
    assert rows.columns == ("p", "age")
    assert rows.to_pylist() == [{"p": {"id": "Ada", "age": 36, "name": "Ada"}, "age": 36}]
    assert rows.to_arrow().column("age").to_pylist() == [36]
    assert rows.to_pandas()["age"].tolist() == [36]
    assert rows.to_polars()["age"].to_list() == [36]
    assert rows[0]["age"] == 36
    assert len(rows) == 1


# -- blobs -----------------------------------------------------------------------------------------


STORE = "query store($p: String, $c: Blob?) { insert File { path: $p, content: $c } }"


def encoded(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


def test_blobs_are_read_whole_or_in_ranges(graph: og.Graph) -> None:
    data = bytes(range(256)) * 1000
    graph.mutate(STORE, {"p": "a", "c": encoded(data)})
    graph.mutate(STORE, {"p": "b", "c": None})
    assert graph.read_blob("File", "a", "content") == data
    assert graph.read_blob("File", "a", "content", offset=255, length=3) == data[255:258]
    assert graph.read_blob("File", "a", "content", offset=len(data) - 1, length=9) == data[-1:]
    assert graph.read_blob("File", "a", "content", offset=len(data) + 5) == b""
    assert graph.read_blob("File", "b", "content") is None


def test_blobs_of_the_past(graph: og.Graph) -> None:
    first = graph.mutate(STORE, {"p": "a", "c": encoded(b"old")}).commit
    assert first is not None
    graph.mutate(STORE, {"p": "a", "c": encoded(b"new")})
    assert graph.read_blob("File", "a", "content") == b"new"
    assert graph.read_blob("File", "a", "content", at=first.id) == b"old"


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        (("File", "zzz", "content"), og.errors.NotFound, "File 'zzz' does not exist"),
        (("Fil", "a", "content"), og.errors.InvalidInput, "there is no type `Fil`; did you mean"),
        (("File", "a", "contents"), og.errors.InvalidInput, "has no blob `contents`; did you mean"),
        (("File", "a", "path"), og.errors.InvalidInput, "has no blob `path`"),
        (("File", "a' OR '1'='1", "content"), og.errors.NotFound, "does not exist"),
    ],
)
def test_a_blob_that_is_not_there(
    graph: og.Graph, asked: tuple[str, str, str], error: type[Exception], text: str
) -> None:
    graph.mutate(STORE, {"p": "a", "c": encoded(b"x")})
    with pytest.raises(error, match=text.replace("(", r"\(")):
        graph.read_blob(*asked)


def test_a_blob_range_begins_at_zero_or_later(graph: og.Graph) -> None:
    graph.mutate(STORE, {"p": "a", "c": encoded(b"x")})
    with pytest.raises(og.errors.InvalidInput):
        graph.read_blob("File", "a", "content", offset=-1)
    with pytest.raises(og.errors.LimitExceeded):
        graph.read_blob("File", "a", "content", length=1 << 40)


# -- arguments of the wrong kind -------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.query(ALL, [1]),
        lambda g: g.query(ALL, "x"),
        lambda g: g.query([]),
        lambda g: g.query(ALL, name=3),
        lambda g: g.query(ALL, name=[]),
        lambda g: g.query(ALL, branch=[]),
        lambda g: g.query(ALL, at=3),
        lambda g: g.mutate(ADD, {"n": "x"}, if_commit=5),
        lambda g: g.mutate(ADD, {"n": "x"}, actor=3),
        lambda g: g.mutate(ADD, {"n": "x"}, idempotency_key=7),
        lambda g: g.mutate(ADD, {"n": "x"}, idempotency_key=""),
        lambda g: g.mutate(ADD, {"n": "x"}, idempotency_key="k" * 1000),
        lambda g: g.branches.create(None),
        lambda g: g.branches.show(1),
        lambda g: g.commits.show(None),
        lambda g: g.commits.list(3),
        lambda g: g.commits.list(limit=-1),
        lambda g: g.commits.list(limit="x"),
        lambda g: g.snapshot(version="x"),
        lambda g: g.snapshot(version=-1),
        lambda g: g.snapshot(version=2**80),
        lambda g: g.read_blob("File", 1, "content"),
        lambda g: g.read_blob(1, "a", "content"),
        lambda g: g.read_blob("File", "a", "content", offset="x"),
        lambda g: g.read_blob("File", "a", "content", length=1.5),
        lambda g: ANY.open(None),
        lambda g: ANY.open(3),
        lambda g: ANY.open(g.uri, storage_options=[1]),
        lambda g: ANY.open(g.uri, embedder=3),
        lambda g: ANY.open(g.uri, settings={}),
        lambda g: ANY.init(g.uri + "2", None),
        lambda g: ANY.init(g.uri + "2", b"node P { }"),
        lambda g: ANY.init(g.uri + "2", "x\0.pg"),
        lambda g: ANY.init(g.uri + "2", "x" * 5000),
    ],
)
def test_a_wrong_argument_is_said_to_be_wrong(graph: og.Graph, call: Any) -> None:
    before = graph.snapshot().commit
    with pytest.raises(og.errors.InvalidInput):
        call(graph)
    assert graph.snapshot().commit == before


def test_half_a_character_is_no_id(graph: og.Graph) -> None:
    with pytest.raises(og.errors.NotFound):
        graph.read_blob("File", "\ud800", "content")


def test_a_key_stands_for_one_operation(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada"}, idempotency_key="k")
    for text, params in ((ADD, {"n": "Bo"}), (STORE, {"p": "a"})):
        with pytest.raises(og.errors.Conflict, match="another operation"):
            graph.mutate(text, params, idempotency_key="k")
    assert names(graph.query(ALL)) == ["Ada"]


def test_a_branch_starts_from_a_commit_of_its_source(graph: og.Graph) -> None:
    graph.branches.create("other")
    commit = graph.mutate(ADD, {"n": "Ada"}).commit
    assert commit is not None
    with pytest.raises(og.errors.NotFound, match="branch 'other' has no commit"):
        graph.branches.create("third", from_="other", at=commit.id)


# -- memory ----------------------------------------------------------------------------------------


def test_vectors_that_nobody_asks_for_stay_where_they_are(tmp_path: Path) -> None:
    """And of those that are asked for by a few rows, only these are read."""
    graph = og.init(tmp_path / "g", "node D { k: String @key  n: I32  v: Vector(4)? }")
    for number in range(20):
        insert = "query q($k: String, $n: I32, $v: Vector(4)?) { insert D { k: $k, n: $n, v: $v } }"
        vector = [float(number), 1.0, 0.0, 0.0] if number % 3 else None
        graph.mutate(insert, {"k": f"k{number:02}", "n": number % 2, "v": vector})
    asked = [
        ("return { count($d) as c }", 0),
        ("return { $d.n as n, count($d) as c }", 0),
        ("return { $d.k as k } order { k } limit 2", 0),
        ("return { $d.k as k, $d.v as v } order { k } limit 2", 2),
        ("return { $d } limit 3", 3),
    ]
    for clauses, taken in asked:
        with telemetry.counting() as counts:
            list(graph.query("query q() { match { $d: D } " + clauses + " }"))
        found = counts.snapshot()
        assert found.get("dense.values_taken", 0) == taken, clauses
        # The columns that are read are the small ones; they are read once.
        assert found.get("dense.column_read", 0) <= 2, clauses
    with telemetry.counting() as counts:
        near = "order { nearest($d.v, [1.0, 0.0, 0.0, 0.0]) } limit 1"
        list(graph.query("query q() { match { $d: D } return { $d.k as k } " + near + " }"))
    assert counts.snapshot()["dense.column_read"] == 1


# -- bounds ----------------------------------------------------------------------------------------


def test_a_dense_graph_is_walked_in_pieces(tmp_path: Path) -> None:
    """Many sources lead to far more targets than there are pairs; only the pairs are kept."""
    graph = og.init(tmp_path / "g", "node P { k: String @key }\nedge To: P -> P")
    people = "\n".join(f'insert P {{ k: "p{n}" }}' for n in range(12))
    edges = "\n".join(
        f'insert To {{ from: "p{a}", to: "p{b}" }}' for a in range(12) for b in range(12) if a != b
    )
    graph.mutate("query q() { " + people + edges + " }")
    far = "query q() { match { $a: P  $a to {1,3} $b } return { count($a) as pairs } }"
    whole = graph.query(far)[0]["pairs"]
    with tuned(walked_targets_max=5):
        assert graph.query(far)[0]["pairs"] == whole == 12 * 11


def test_the_rows_of_a_query_are_bounded(tmp_path: Path) -> None:
    settings = og.Settings(frame_rows_max=100)
    graph = og.init(tmp_path / "g", "node P { k: String @key }", settings=settings)
    people = "\n".join(f'insert P {{ k: "p{n}" }}' for n in range(12))
    graph.mutate("query q() { " + people + " }")
    text = "query q() { match { $a: P  $b: P  $a.k != $b.k } return { $a.k, $b.k } }"
    with pytest.raises(og.errors.LimitExceeded) as caught:
        graph.query(text, engine="inprocess")
    assert caught.value.details["limit"] == "frame_rows_max"


def test_the_smallest_number_is_a_number_like_others(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { k: String @key  n: I64  @unique(n) }")
    add = "query q($k: String, $n: I64) { insert P { k: $k, n: $n } }"
    graph.mutate(add, {"k": "a", "n": 5})
    graph.mutate(add, {"k": "b", "n": -(2**63)})
    graph.ensure_indices()
    with pytest.raises(og.errors.ConstraintViolated):
        graph.mutate(add, {"k": "c", "n": -(2**63)})
    change = "query q($n: I64) { update P set { n: 7 } where n <= $n }"
    assert graph.mutate(change, {"n": -(2**63)}).affected_nodes == 1


def test_unique_values_are_found_by_an_index(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { k: String @key  mail: String  @unique(mail) }")
    graph.mutate('query q() { insert P { k: "a", mail: "a@b" } }')
    built = graph.ensure_indices().built
    assert ("node:P", "mail_ordered") in built
    assert ("node:P", "mail_text") not in built
