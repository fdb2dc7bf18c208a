"""What the facade adds to the layers below it: pinning, history, branches, blobs, explaining."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32? }
node File { path: String @key  content: Blob? }
edge Knows: Person -> Person
edge Owns: Person -> File { proof: Blob? }
"""
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
TWO = ALL + "\n" + ADD


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
    assert profile.rows is not None
    assert names(profile.rows) == ["Ada"]
    assert [entry.rows for entry in profile.entries][-1] == 1
    assert graph.profile(ALL).path == "dense"
    assert graph.explain(ADD).startswith("mutation add(")
    with pytest.raises(og.errors.InvalidInput, match="known: auto, dense, direct"):
        graph.query(ALL, access="magic")


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
