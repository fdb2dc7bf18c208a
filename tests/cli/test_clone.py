"""`omnigraph clone`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.support import SCHEMA, invoke


def test_a_graph_is_cloned_and_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with og.init("people.omni", SCHEMA) as graph:
        graph.branches.create("dev")
        head = graph.snapshot().commit
    done = invoke("clone", "people.omni", "copy.omni", "--quiet")
    assert done.stdout.startswith("copied 2 branches, ")
    assert done.stdout.endswith(f"to {tmp_path / 'copy.omni'}\n")
    told = json.loads(invoke("clone", "copy.omni", "main.omni", "-b", "main", "--json").stdout)
    assert (told["graph_commit_id"], told["branches"], told["reused"]) == (head, ["main"], 0)
    again = invoke("clone", "people.omni", "copy.omni", "--quiet")
    assert again.exit_code != 0
    assert "there is a graph" in again.stderr
