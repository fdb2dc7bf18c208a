"""`omnigraph relocate`: what it prints, and that it may be repeated."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.support import SCHEMA, invoke


def test_a_moved_graph_is_relocated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with og.init("people.omni", SCHEMA) as graph:
        graph.branches.create("dev")
    Path("people.omni").rename("moved.omni")
    dry = invoke("relocate", "--dry-run", "moved.omni")
    assert dry.stdout.splitlines() == [
        "to be relocated: 1 of 1 version files of branches",
        f"  they named {tmp_path / 'people.omni'}",
    ]
    done = invoke("relocate", "moved.omni", "--json")
    assert json.loads(done.stdout) == {
        "uri": str(tmp_path / "moved.omni"),
        "recorded": [str(tmp_path / "people.omni")],
        "files": 1,
        "changed": 1,
    }
    assert invoke("relocate", "moved.omni").stdout == "nothing to relocate\n"
    with og.open("moved.omni") as graph:
        assert graph.snapshot(branch="dev").counts == {"node:Person": 0, "edge:Knows": 0}


def test_where_there_is_no_graph_it_says_so(tmp_path: Path) -> None:
    answer = invoke("relocate", str(tmp_path))
    assert answer.exit_code != 0
    assert "there is no graph" in answer.stderr
