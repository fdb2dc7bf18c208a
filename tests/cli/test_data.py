"""Making, filling and emptying a graph from the command line."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.support import SCHEMA, invoke

LINES = [
    {"type": "Person", "data": {"name": "Ada", "born": "1815-12-10"}},
    {"type": "Person", "data": {"name": "Bo"}},
    {"edge": "Knows", "from": "Ada", "to": "Bo"},
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.pg").write_text(SCHEMA)
    (tmp_path / "people.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    return tmp_path


def load(*more: str) -> tuple[int, str, str]:
    answer = invoke("load", "--store", "people.omni", *more)
    return answer.exit_code, answer.stdout, answer.stderr


def test_init_says_what_the_graph_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.pg").write_text(SCHEMA)
    answer = invoke("init", "--schema", "people.pg", "new.omni")
    assert answer.stdout.endswith("with 1 node type, 1 edge type\n")
    again = invoke("init", "--schema", "people.pg", "new.omni")
    assert again.exit_code == 1
    assert "graph_exists" in again.stderr


def test_load_tells_what_it_did(here: Path) -> None:
    status, out, err = load("--data", "people.jsonl", "--mode", "append")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[:3]]
    assert rows == [
        ["type", "inserted", "updated", "deleted"],
        ["edge:Knows", "1", "0", "0"],
        ["node:Person", "2", "0", "0"],
    ]
    assert "inprocess: " in out


def test_load_as_json_keeps_the_names_of_the_wire(here: Path) -> None:
    status, out, _ = load("-d", "people.jsonl", "-m", "append", "--json", "--actor", "me")
    told = json.loads(out)
    with og.open("people.omni", "r") as graph:
        assert (status, told["graph_commit_id"]) == (0, graph.commits.list()[0].id)
    assert told["nodes"][0]["name"] == "Person"
    assert told["nodes"][0]["entities_loaded"] == 2
    assert (told["total_entities"], told["actor_id"], told["mode"]) == (3, "me", "append")


def test_writing_commands_take_a_message(here: Path) -> None:
    assert load("-d", "people.jsonl", "-m", "append", "--message", "first people")[0] == 0
    assert invoke("optimize", "--store", "people.omni", "--message", "tidy").exit_code == 0
    with og.open("people.omni") as graph:
        said = [commit.message for commit in graph.commits.list(limit=2)]
    assert said == ["tidy", "first people"]


def test_what_is_wrong_is_listed_with_its_place(here: Path) -> None:
    Path("bad.jsonl").write_text(
        '{"type": "Person", "data": {"name": "Cy", "born": "soon"}}\n'
        '{"edge": "Knows", "from": "Cy", "to": "Nobody"}\n'
    )
    status, out, err = load("-d", "bad.jsonl", "-m", "append", "--violations", "all.jsonl")
    assert (status, out) == (1, "")
    table = [line.split()[:5] for line in err.splitlines()[1:]]
    assert table == [
        ["file", "line", "type", "property", "value"],
        ["bad.jsonl", "1", "Person", "born", "soon"],
        ["bad.jsonl", "2", "Knows", "to", "Nobody"],
    ]
    written = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert [item["line"] for item in written] == [1, 2]
    with og.open("people.omni", "r") as graph:
        assert set(graph.snapshot().counts.values()) == {0}


def test_the_short_option_is_the_mode_or_the_message(here: Path) -> None:
    assert load("-d", "people.jsonl", "--mode", "append", "-m", "first people")[0] == 0
    assert load("-d", "people.jsonl", "--mode", "merge", "-m", "append")[0] == 0
    assert load("-d", "people.jsonl", "-m", "merge")[0] == 0
    with og.open("people.omni") as graph:
        said = [commit.message for commit in graph.commits.list(limit=3)]
    assert said == [None, "append", "first people"]
    for words in (("-m", "people"), ("--mode", "merge", "-m", "a", "--message", "b")):
        assert load("-d", "people.jsonl", *words)[0] == 2


def test_files_of_one_type_are_named(here: Path) -> None:
    Path("a.csv").write_text("name,born\nCy,2000-01-01\nDi,\n")
    status, out, err = load("-d", "Person=a.csv", "-m", "append", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["nodes"][0]["inserted"] == 2


def test_standard_input_and_a_branch_of_its_own(here: Path) -> None:
    data = Path("people.jsonl").read_bytes()
    arguments = ("load", "--store", "people.omni", "-d", "-", "-m", "append", "-f", "ndjson")
    answer = invoke(*arguments, "-b", "review", "--create-from", "main", "--json", stdin=data)
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout)["branch_created"] is True
    with og.open("people.omni", "r") as graph:
        assert graph.snapshot("review").counts["node:Person"] == 2
        assert graph.snapshot().counts["node:Person"] == 0


def test_export_gives_back_what_was_loaded(here: Path) -> None:
    assert load("-d", "people.jsonl", "-m", "append")[0] == 0
    answer = invoke("export", "--store", "people.omni", "--type", "Person")
    assert answer.exit_code == 0
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [line["data"]["name"] for line in lines] == ["Ada", "Bo"]
    told = invoke("export", "--store", "people.omni", "--out", "all.jsonl", "--json")
    assert json.loads(told.stdout)["rows"] == {"node:Person": 2, "edge:Knows": 1}
    refused = invoke("export", "--store", "people.omni", "--out", "all.jsonl")
    assert refused.exit_code == 1
    assert "overwrite" in refused.stderr
    columns = ("export", "--store", "people.omni", "--type", "Person", "--out", "p.parquet")
    assert invoke(*columns).exit_code == 0
    assert Path("p.parquet").read_bytes().startswith(b"PAR1")


def test_optimize_says_what_changed_and_then_nothing(here: Path) -> None:
    assert load("-d", "people.jsonl", "-m", "append")[0] == 0
    first = invoke("optimize", "--store", "people.omni")
    assert (first.exit_code, "commit " in first.stdout) == (0, True)
    assert invoke("optimize", "--store", "people.omni").stdout == "nothing to gain\n"


def test_words_that_do_not_fit_are_refused(here: Path) -> None:
    assert invoke("load", "--store", "people.omni", "-d", "people.jsonl").exit_code == 2
    status, _, err = load("-d", "people.jsonl", "-m", "append", "--replace")
    assert (status, "replace" in err) == (1, True)
    status, _, err = load("-d", "missing.jsonl", "-m", "append")
    assert (status, "missing.jsonl" in err) == (1, True)


# -- vectors ---------------------------------------------------------------------------------------


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    schema = "node Doc { slug: String @key  text: String  vec: Vector(4)? @embed(text) }"
    (tmp_path / "docs.pg").write_text(schema)
    (tmp_path / "Doc.csv").write_text("slug,text\na,one\nb,two\n")
    assert invoke("init", "--schema", "docs.pg", "people.omni").exit_code == 0
    return tmp_path


def test_load_warns_of_vectors_that_nobody_computes(docs: Path) -> None:
    status, out, err = load("-d", "Doc=Doc.csv", "-m", "append")
    assert status == 0
    assert "warning" not in out
    assert err.startswith("warning: Doc.vec is null in 2 entities")
    assert "omnigraph embed" in err
    status, out, err = load("-d", "Doc=Doc.csv", "-m", "overwrite", "--json")
    told = json.loads(out)
    assert (status, err, told["vectors_missing"]) == (0, "", 2)
    assert [(each["code"], each["count"]) for each in told["warnings"]] == [
        ("embedding_provider_missing", 2)
    ]


def test_embed_computes_what_is_missing(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load("-d", "Doc=Doc.csv", "-m", "append")
    refused = invoke("embed", "--store", "people.omni")
    assert refused.exit_code == 1
    assert "OMNIGRAPH_EMBED_PROVIDER" in refused.stderr
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    first = invoke("embed", "--store", "people.omni", "--type", "Doc", "--batch", "1")
    assert first.exit_code == 0
    assert first.stdout.startswith("node:Doc.vec: 2 vectors\ncommit ")
    assert first.stdout.endswith(" on main, the last of 2\n")
    assert invoke("embed", "--store", "people.omni").stdout == "no vector is missing\n"
    told = json.loads(invoke("embed", "--store", "people.omni", "--all", "--json").stdout)
    assert (told["vectors"], told["commits"], told["skipped"]) == ({"node:Doc.vec": 2}, 1, 0)
