"""`omnigraph recover` and `graph.recover()`: what stopped half-way, told to a person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import INTENTS
from omnigraph.runtime.failpoints import Fault, Refuse, armed
from tests.cli.support import SCHEMA, invoke

ADD = 'query add() { insert Person { name: "Ada" }  insert Person { name: "Bo" } }'
EDGE = ADD[:-1] + 'insert Knows { from: "Ada", to: "Bo" } }'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.pg").write_text(SCHEMA)
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    return tmp_path


def leave(faults: Mapping[StrEnum, Fault], nth: int = 1) -> str:
    """Let a mutation stop half-way; its operation id."""
    with (
        og.open("people.omni") as graph,
        armed(faults, nth=nth),
        pytest.raises(og.errors.RecoveryRequired) as caught,
    ):
        graph.mutate(EDGE)
    return str(caught.value.details["operation_id"])


def test_with_nothing_left_there_is_nothing_to_recover(here: Path) -> None:
    answer = invoke("recover", "--store", "people.omni")
    assert (answer.exit_code, answer.stdout) == (0, "nothing to recover\n")


def test_it_tells_what_was_finished_and_what_was_taken_back(here: Path) -> None:
    forward = leave({Fp.PUBLISH: Refuse()})
    answer = invoke("recover", "--store", "people.omni")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        f"{forward}  rolled forward: mutation on main (edge:Knows, node:Person)",
        "  it had landed as a whole, so it was finished",
    ]
    with og.open("people.omni") as graph:
        assert graph.snapshot().counts == {"node:Person": 2, "edge:Knows": 1}
        graph.mutate('query del() { delete Person where name in ["Ada", "Bo"] }')
    back = leave({Fp.LAND: Refuse()}, nth=2)
    told = json.loads(invoke("recover", "--store", "people.omni", "--json").stdout)
    (write,) = told["writes"]
    assert (write["operation_id"], write["outcome"]) == (back, "rolled_back")
    assert told["settled"] is True
    with og.open("people.omni") as graph:
        assert graph.snapshot().counts == {"node:Person": 0, "edge:Knows": 0}


def test_what_another_tool_moved_is_left_and_needs_a_person(here: Path) -> None:
    with og.open("people.omni") as graph:
        repo = graph._repo
        pin = repo.snapshot().pin("node:Person")
        repo.tables.restore(
            pin.path, None, to_version=pin.version, expected_head=pin.version, uuid="of-a-tool"
        )
        with pytest.raises(og.errors.Corrupt) as caught:
            graph.mutate(ADD)
        assert graph.snapshot().counts["node:Person"] == 0
    assert "`omnigraph recover`" in str(caught.value)
    answer = invoke("recover", "--store", "people.omni")
    assert answer.exit_code == 1
    assert "stuck: commit of another tool on main (node:Person)" in answer.stdout
    assert "take that commit back with the tool that made it" in answer.stdout


def test_an_intent_that_cannot_be_read_is_named(here: Path) -> None:
    place = here / "people.omni" / INTENTS / "broken.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text("{")
    answer = invoke("recover", "--store", "people.omni")
    assert answer.exit_code == 1
    assert "intent_unreadable" in answer.stderr
    assert f"{INTENTS}/broken.json" in answer.stderr


def test_reading_only_does_not_recover(here: Path) -> None:
    with og.open("people.omni", "r") as graph, pytest.raises(og.errors.Forbidden):
        graph.recover()
