"""History from the command line: commits, tags, blame, reverts, the change feed, blobs."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.support import SCHEMA, invoke, program

FILES = SCHEMA + "node File { path: String @key  content: Blob? }\n"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with four commits of two actors, a tag and a branch; nobody changes it."""
    place = tmp_path_factory.mktemp("history") / "people.omni"
    with og.init(place, FILES) as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }', actor="ada", message="first")
        graph.mutate(
            'query q() { update Person set { born: date("1815-12-10") } where name = "Ada" }',
            actor="bo",
        )
        graph.mutate('query q() { insert File { path: "a", content: "base64:aGVsbG8=" } }')
        graph.tags.create("v1", message="as published")
        graph.branches.create("draft")
        graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
    return place


def run(*arguments: str | Path) -> str:
    answer = invoke(*arguments)
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


def test_commits_are_listed_filtered_and_shown(stored: Path) -> None:
    listed = json.loads(run("commit", "list", stored, "--filter", "actor=ada", "--json"))
    assert [(each["actor_id"], each["message"]) for each in listed] == [("ada", "first")]
    assert json.loads(run("commit", "list", stored, "--filter", "actor=x", "--json")) == []
    assert invoke("commit", "list", stored, "--filter", "colour=red").exit_code == 2
    shown = run("show", stored, "main~1")
    assert "actor:  bo\n" in shown
    assert "~ Person 'Ada'  born: null -> '1815-12-10'" in shown.replace("None", "null")
    counts = json.loads(run("show", stored, "main~1", "--stat", "--json=counts,actor_id"))
    assert counts == {
        "counts": {"node:Person": {"inserted": 0, "updated": 1, "deleted": 0}},
        "actor_id": "bo",
    }
    commit = listed[0]["graph_commit_id"]
    changes = json.loads(run("commit", "changes", stored, commit, "--json"))["changes"]
    assert [(each["operation"], each["id"]) for each in changes] == [("insert", "Ada")]


def test_the_log_is_drawn_and_listed(stored: Path) -> None:
    drawn = run("log", stored, "--graph", "--all").splitlines()
    assert drawn[0].startswith("* ")
    assert "(draft)" in drawn[0]
    assert len(run("log", f"{stored}@draft", "-f", "jsonl").splitlines()) == 5
    assert invoke("log", stored, "--graph", "--json").exit_code == 2


def test_an_entity_knows_who_changed_it(stored: Path) -> None:
    lines = [line.split() for line in run("blame", stored, "Person", "Ada").splitlines()]
    assert [(line[2], line[3]) for line in lines[1:]] == [("bo", "update"), ("ada", "insert")]
    told = json.loads(run("blame", stored, "Person", "Ada", "-n", "1", "--json"))
    assert told[0]["changed"] == ["born"]


def test_the_feed_is_read_page_by_page_and_followed(stored: Path) -> None:
    page = json.loads(run("changes", "poll", stored, "--limit", "1", "--json"))
    assert (page["caught_up"], len(page["blocks"])) == (False, 1)
    assert page["blocks"][0]["cause"]["actor_id"] == "ada"
    rest = json.loads(run("changes", "poll", stored, "--cursor", page["cursor"], "--json"))
    assert (rest["caught_up"], len(rest["blocks"])) == (True, 2)
    text = run("changes", "follow", stored, "--start", "beginning", "--pages", "1")
    assert text.count("commit ") == 3
    *entities, last = map(json.loads, run("changes", "baseline", stored).splitlines())
    assert [each["id"] for each in entities] == ["a", "Ada"]
    assert last["resume_cursor"]
    assert last["snapshot_commit_id"]
    assert invoke("changes", "poll", stored, "--op", "grow").exit_code == 1


def test_to_interrupt_a_feed_is_how_it_ends(stored: Path) -> None:
    with subprocess.Popen(
        [program(), "changes", "follow", stored, "--start", "beginning"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline().startswith(b"commit ")
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=120)
    assert (following.returncode, said) == (0, b"")


def test_a_snapshot_counts_entities(stored: Path) -> None:
    lines = run("snapshot", stored, "--at", "v1").splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["edge:Knows", "0"],
        ["node:File", "1"],
        ["node:Person", "1"],
    ]
    told = json.loads(run("snapshot", f"{stored}@draft", "--json"))
    assert told["graph_branch"] == "draft"
    assert {"entity_kind": "node", "type_name": "Person", "entity_count": 2} in told["datasets"]


def test_bytes_of_a_blob_are_written(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.txt"
    run("blob", "get", stored, "File", "a", "content", "--out", out)
    assert out.read_bytes() == b"hello"
    assert run("blob", "get", stored, "File", "a", "content", "--offset", "1", "--length", "3") == (
        "ell"
    )
    assert invoke("blob", "get", stored, "File", "b", "content").exit_code == 1


def test_a_query_is_measured(stored: Path) -> None:
    text = "query q() { match { $p: Person } return { $p.name } }"
    assert " rows " in run("profile", stored, "-e", text)
    told = json.loads(run("profile", "query", stored, "-e", text, "--json"))
    assert told["row_count"] == 1
    assert told["steps"]


def test_branches_are_compared(stored: Path) -> None:
    assert run("branch", "diff", stored, "draft") == "+ Person 'Cy'  name: 'Cy'\n"
    counts = run("branch", "diff", stored, "draft", "--stat").splitlines()
    assert counts[1].split() == ["node:Person", "1", "0", "0"]


def test_graphs_lend_their_schema_to_the_tools(stored: Path) -> None:
    text = "query q() { match { $p: Person } return { $p.name } }"
    assert "Person" in run("explain", stored, "-e", text)
    assert run("lint", stored).endswith("0 errors, 0 warnings\n")


def test_tags_reverts_and_resets(tmp_path: Path) -> None:
    place = tmp_path / "people.omni"
    with og.init(place, SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }')
        graph.branches.create("draft")
    run("tag", "create", place, "v1", "-m", "as published", "--as", "ada")
    (tag,) = json.loads(run("tag", "list", place, "--json"))
    assert (tag["name"], tag["actor_id"], tag["message"]) == ("v1", "ada", "as published")
    assert "v1" in run("tag", "list", place)
    assert run("revert", place, "main", "--dry-run").splitlines()[1] == "  node:Person  -1"
    assert run("revert", place, "v1", "-m", "a mistake").startswith(f"{tag['graph_commit_id']} is ")
    with og.open(place) as graph:
        assert graph.snapshot().counts["node:Person"] == 0
        assert graph.commits.list(limit=1)[0].message == "a mistake"
    refused = invoke("reset", place, "v1")
    assert (refused.exit_code, "branch_protected" in refused.stderr) == (1, True)
    told = json.loads(run("reset", f"{place}@draft", "draft~1", "--json"))
    assert told["counts"]["node:Person"]["deleted"] == 1
    run("tag", "delete", place, "v1")
    assert json.loads(run("tag", "list", place, "--json")) == []
