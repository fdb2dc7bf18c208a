"""`omnigraph query`, `mutate`, `branch`, `log` and `diff`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.cli.support import QUERY, SCHEMA, invoke

ADD = """query add($name: String, $born: Date?) { insert Person { name: $name, born: $born } }
query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query rename($name: String, $born: Date) { update Person set { born: $born } where name = $name }
"""
ALL = (
    "query q() { match { $p: Person } return { $p.name as name, $p.born as born } order { name } }"
)
STORE = ("--store", "people.omni")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("people.pg", SCHEMA), ("people.gq", QUERY), ("changes.gq", ADD)):
        (tmp_path / name).write_text(text)
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    with og.open("people.omni") as graph:
        graph.load(
            {
                "Person": [{"name": "Ada", "born": "1815-12-10"}, {"name": "Bo"}],
                "Knows": [{"from": "Ada", "to": "Bo"}],
            }
        )
    return tmp_path


def run(*arguments: str, status: int = 0, **options: Any) -> str:
    answer = invoke(*arguments, **options)
    assert answer.exit_code == status, answer.stderr
    return answer.stdout


def test_the_actor_is_that_of_every_command(here: Path) -> None:
    assert run("init", "--schema", "people.pg", "other.omni", "--as", "eve")
    listed = json.loads(run("commit", "list", "other.omni", "--as", "bo", "--json=actor_id,kind"))
    assert listed == [{"actor_id": "eve", "kind": "init"}]


# -- queries ---------------------------------------------------------------------------------------


def test_a_query_of_a_file_with_a_parameter(here: Path) -> None:
    out = run("query", *STORE, "--query", "people.gq", "friends", "-p", "name=Ada")
    assert out == "name\nBo\n1 row\n"


def test_the_formats_say_the_same(here: Path) -> None:
    rows = [{"name": "Ada", "born": "1815-12-10"}, {"name": "Bo", "born": None}]
    query = ("query", *STORE, "-e", ALL)
    document = json.loads(run(*query, "--json"))
    assert document["rows"] == rows
    assert (document["columns"], document["row_count"]) == (["name", "born"], 2)
    assert (document["query_name"], document["target"]) == ("q", {"branch": "main"})
    assert json.loads(run(*query, "--format", "json")) == document
    chosen = json.loads(run(*query, "--json=name"))
    assert chosen["rows"] == [{"name": "Ada"}, {"name": "Bo"}]
    about, *lines = [json.loads(line) for line in run(*query, "-f", "jsonl").splitlines()]
    assert (about["kind"], about["query_name"], about["row_count"]) == ("metadata", "q", 2)
    assert lines == rows
    assert list(csv.DictReader(io.StringIO(run(*query, "-f", "csv")))) == [
        {"name": "Ada", "born": "1815-12-10"},
        {"name": "Bo", "born": ""},
    ]
    assert run(*query, "-f", "kv") == "name  Ada\nborn  1815-12-10\n\nname  Bo\nborn  -\n"
    assert run(*query) == "name  born\nAda   1815-12-10\nBo    -\n2 rows\n"


def test_the_middle_of_a_long_table_is_left_out(here: Path) -> None:
    with og.open("people.omni") as graph:
        graph.load({"Person": [{"name": f"p{number:04}"} for number in range(200)]})
    lines = run("query", *STORE, "-e", ALL).splitlines()
    assert len(lines) == 93
    assert lines[46].startswith("… 112 more")
    assert lines[-1] == "202 rows"
    assert len(run("query", *STORE, "-e", ALL, "-f", "csv").splitlines()) == 203


def test_mistakes_have_their_place_and_end_with_one(here: Path) -> None:
    answer = invoke("query", *STORE, "-e", "query q() { match { $p: Persn } return { $p.name } }")
    assert answer.exit_code == 1
    assert "did you mean" in answer.stderr.lower()
    assert invoke("query", *STORE).exit_code == 2
    assert invoke("query", *STORE, "-e", ALL, "-p", "name").exit_code == 2


def test_a_branch_that_is_not_there_suggests_one_that_is(here: Path) -> None:
    run("branch", "create", "people.omni", "draft")
    answer = invoke("query", "people.omni@darft", "-e", ALL)
    assert answer.exit_code == 1
    assert answer.stderr == (
        "error[not_found]: branch 'darft' does not exist; did you mean `draft`?\n"
    )


def test_a_tag_in_the_place_of_a_branch_is_pointed_out(here: Path) -> None:
    run("tag", "create", "people.omni", "v1")
    answer = invoke("query", "people.omni@v1", "-e", ALL)
    assert answer.exit_code == 1
    assert answer.stderr == (
        "error[not_found]: branch 'v1' does not exist, but a tag of that name; "
        "--at v1 reads its state\n"
    )
    run("query", "people.omni", "--at", "v1", "-e", ALL)


# -- changes ---------------------------------------------------------------------------------------


def test_a_change_is_a_commit_with_a_message(here: Path) -> None:
    out = run(
        "mutate", *STORE, "-q", "changes.gq", "add", "-p", "name=Cy", "-p", "born=1999-01-02",
        "--actor", "tester", "-m", "one more",
    )  # fmt: skip
    with og.open("people.omni") as graph:
        (newest, *_) = graph.commits.list()
    assert out == f"1 node, 0 edges, commit {newest.id} on main\n"
    assert (newest.actor, newest.message) == ("tester", "one more")
    shown = json.loads(run("log", *STORE, "--limit", "1", "--json"))
    assert [(each["graph_commit_id"], each["message"]) for each in shown] == [
        (newest.id, "one more")
    ]
    assert "one more" in run("log", *STORE)
    assert json.loads(run("log", *STORE, "--actor", "nobody", "--json")) == []


def test_a_condition_that_does_not_hold_changes_nothing(here: Path) -> None:
    with og.open("people.omni") as graph:
        head = graph.snapshot().commit
    change = ("mutate", *STORE, "-q", "changes.gq", "add", "-p", "name=Cy", "--if-commit")
    run(*change, str(head))
    assert invoke(*change, str(head)).exit_code != 0


# -- branches --------------------------------------------------------------------------------------


def test_a_branch_is_made_changed_compared_merged_and_deleted(here: Path) -> None:
    run("branch", "create", *STORE, "draft")
    run("mutate", *STORE, "-q", "changes.gq", "add", "-p", "name=Cy", "--branch", "draft")
    listed = json.loads(run("branch", "list", *STORE, "--json"))
    assert [(each["name"], each["parent"]) for each in listed] == [
        ("draft", "main"),
        ("main", None),
    ]
    assert run("diff", *STORE, "main", "draft", "--counts").splitlines()[1].split() == [
        "node:Person", "1", "0", "0",
    ]  # fmt: skip
    assert run("diff", *STORE, "main", "draft").startswith("+ Person 'Cy'")
    (change,) = json.loads(run("diff", *STORE, "main", "draft", "--json"))["changes"]
    assert (change["operation"], change["after"]["name"]) == ("insert", "Cy")
    planned = json.loads(run("branch", "merge", *STORE, "draft", "--dry-run", "--json"))
    assert (planned["outcome"], planned["graph_commit_id"]) == ("fast_forward", None)
    assert run("branch", "rename", *STORE, "draft", "final") == "draft is final now\n"
    merged = run("branch", "merge", *STORE, "final", "--delete-branch", "-m", "done")
    assert "fast forward" in merged
    assert [each["name"] for each in json.loads(run("branch", "list", *STORE, "--json"))] == [
        "main"
    ]
    assert run("query", *STORE, "-e", ALL, "-f", "csv").count("Cy") == 1


def test_conflicts_are_listed_and_settled(here: Path) -> None:
    run("branch", "create", *STORE, "draft")
    change = ("mutate", *STORE, "-q", "changes.gq", "rename", "-p", "name=Bo", "-p")
    run(*change, "born=2000-01-01", "--branch", "draft")
    run(*change, "born=1990-01-01")
    planned = invoke("branch", "merge", *STORE, "draft", "--dry-run", "--json")
    assert planned.exit_code == 1
    (conflict,) = json.loads(planned.stdout)["conflicts"]
    assert (conflict["id"], conflict["properties"]) == ("Bo", ["born"])
    refused = invoke("branch", "merge", *STORE, "draft")
    assert refused.exit_code != 0
    assert "Bo" in refused.stderr
    run("branch", "merge", *STORE, "draft", "--resolve", "theirs")
    assert "2000-01-01" in run("query", *STORE, "-e", ALL)
    run("branch", "delete", *STORE, "draft")
    assert invoke("branch", "delete", *STORE, "draft").exit_code == 1


def test_older_states_are_read(here: Path) -> None:
    run("mutate", *STORE, "-q", "changes.gq", "add", "-p", "name=Cy")
    assert "Cy" not in run("query", *STORE, "-e", ALL, "--at", "main~1")
    run("branch", "create", *STORE, "old", "--at", "main~1")
    assert "Cy" not in run("query", *STORE, "-e", ALL, "--branch", "old")
