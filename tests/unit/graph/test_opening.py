"""Making, opening and closing graphs."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.runtime.environment import cache_folder, storage_options

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
ADD = "query add($n: String) { insert Person { name: $n } }"
ALL = "query all() { match { $p: Person } return { $p.name as name } }"


def test_a_schema_is_a_text_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "people.pg"
    path.write_text(SCHEMA, encoding="utf-8")
    schemas: list[str | Path] = [SCHEMA, path, str(path)]
    for number, schema in enumerate(schemas):
        with og.init(tmp_path / f"g{number}", schema) as graph:
            assert graph.snapshot().schema == SCHEMA
            assert graph.snapshot().counts == {"edge:Knows": 0, "node:Person": 0}


def test_a_missing_schema_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(og.errors.NotFound, match=r"there is no schema file .*people\.pg"):
        og.init(tmp_path / "g", tmp_path / "people.pg")
    with pytest.raises(og.errors.NotFound, match="there is no schema file"):
        og.init(tmp_path / "g", str(tmp_path / "people.pg"))


def test_mistakes_of_a_schema_come_with_places_and_make_nothing(tmp_path: Path) -> None:
    with pytest.raises(og.errors.InvalidInput) as caught:
        og.init(tmp_path / "g", "node Person { name: Strin @key }\nedge Knows: Person -> Nobody")
    assert len(caught.value.diagnostics) == 2
    assert not (tmp_path / "g").exists()


def test_a_graph_is_made_once(tmp_path: Path) -> None:
    og.init(tmp_path / "g", SCHEMA).close()
    with pytest.raises(og.errors.Conflict):
        og.init(tmp_path / "g", SCHEMA)


def test_opening_needs_a_graph_and_a_mode(tmp_path: Path) -> None:
    with pytest.raises(og.errors.NotFound):
        og.open(tmp_path / "nothing")
    og.init(tmp_path / "g", SCHEMA).close()
    with pytest.raises(og.errors.InvalidInput, match="'rw' and 'r'"):
        og.open(tmp_path / "g", "w")


def test_a_reader_refuses_every_write(tmp_path: Path) -> None:
    og.init(tmp_path / "g", SCHEMA).close()
    with og.open(tmp_path / "g", "r") as graph:
        assert graph.mode == "r"
        for write in (
            lambda: graph.mutate(ADD, {"n": "Ada"}),
            lambda: graph.branches.create("b"),
            graph.ensure_indices,
        ):
            with pytest.raises(og.errors.Forbidden):
                write()
        graph.refresh()
        assert graph.query(ALL).to_pylist() == []


def test_a_reader_sees_what_a_writer_commits(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as writer, og.open(tmp_path / "g", "r") as reader:
        assert len(reader.query(ALL)) == 0
        writer.mutate(ADD, {"n": "Ada"})
        assert [row["name"] for row in reader.query(ALL)] == ["Ada"]


def test_the_actor_of_a_handle_and_of_a_call(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, actor="ada") as graph:
        graph.mutate(ADD, {"n": "a"})
        graph.mutate(ADD, {"n": "b"}, actor="bo")
        assert [commit.actor for commit in graph.commits.list(limit=2)] == ["bo", "ada"]
        assert [commit.kind for commit in graph.commits.list(actor="ada")] == ["mutation", "init"]
        with pytest.raises(og.errors.InvalidInput):
            graph.mutate(ADD, {"n": "c"}, actor="two\nlines")


def test_where_s3_is_comes_from_the_usual_variables() -> None:
    variables = {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-south-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "OTHER": "x",
    }
    assert storage_options("s3://bucket/g", variables) == {
        "aws_access_key_id": "me",
        "aws_secret_access_key": "secret",
        "aws_region": "eu-south-1",
        "aws_endpoint": "http://127.0.0.1:9000",
        "allow_http": "true",
    }
    assert (
        storage_options("s3://bucket/g", {**variables, "AWS_ALLOW_HTTP": "false"})["allow_http"]
        == "false"
    )
    assert storage_options("/some/where", variables) == {}


def test_where_the_cache_is() -> None:
    assert cache_folder({"OMNIGRAPH_HOME": "/h"}) == Path("/h/cache")
    assert cache_folder({}) == Path.home() / ".omnigraph" / "cache"


def test_settings_come_from_the_caller_or_from_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_BYTES_MAX", "2048")
    graph = og.init(tmp_path / "g", SCHEMA)
    rows = [{"name": f"{number}" * 20} for number in range(100)]
    graph.load({"Person": rows})
    with pytest.raises(og.errors.LimitExceeded):
        graph.query(ALL).to_pylist()
    graph.close()
    with og.open(tmp_path / "g", settings=og.Settings()) as graph:
        assert len(graph.query(ALL).to_pylist()) == 100
    monkeypatch.setenv("OMNIGRAPH_QUERY_BYTES_MAX", "much")
    with pytest.raises(og.errors.InvalidInput, match="OMNIGRAPH_QUERY_BYTES_MAX: query_bytes_max"):
        og.open(tmp_path / "g")
