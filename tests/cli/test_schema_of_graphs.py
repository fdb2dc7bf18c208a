"""`omnigraph schema show`, `schema plan --store` and `schema apply`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.support import SCHEMA, invoke

WIDER = SCHEMA.replace("  born: Date?", '  birthday: Date? @rename_from("born")\n  city: String?')
NARROWER = SCHEMA.replace("  born: Date?", "  born: Date")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("people.pg", SCHEMA), ("wider.pg", WIDER), ("narrower.pg", NARROWER)):
        (tmp_path / name).write_text(text)
    (tmp_path / "born.gq").write_text("query q() { match { $p: Person } return { $p.born } }")
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    with og.open("people.omni") as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }')
    return tmp_path


def test_a_schema_is_planned_applied_and_shown(here: Path) -> None:
    store = ("--store", "people.omni")
    planned = invoke("schema", "plan", *store, "--schema", "wider.pg")
    assert planned.exit_code == 0
    assert planned.stdout.endswith("2 steps, can be applied\n")
    applied = invoke("schema", "apply", *store, "--schema", "wider.pg", "-m", "wider")
    assert applied.exit_code == 0
    with og.open("people.omni") as graph:
        (newest, *_) = graph.commits.list()
        assert applied.stdout == f"2 steps, commit {newest.id} on main\n"
        assert (newest.kind, newest.message) == ("schema_apply", "wider")
    assert invoke("schema", "show", *store).stdout == WIDER.rstrip("\n") + "\n"
    assert invoke("schema", "show", *store, "--at", "main~1").stdout == SCHEMA.rstrip("\n") + "\n"
    again = invoke("schema", "apply", *store, "--schema", "wider.pg")
    assert again.stdout == "the schema is in force already\n"


def test_rows_and_queries_in_the_way_are_named(here: Path) -> None:
    store = ("--store", "people.omni")
    rows = invoke("schema", "plan", *store, "--schema", "narrower.pg")
    assert rows.exit_code == 1
    assert "1 step, 1 violation: cannot be applied\nin the way: Person.born" in rows.stdout
    refused = invoke("schema", "apply", *store, "--schema", "narrower.pg")
    assert refused.exit_code == 1
    assert "Person.born" in refused.stderr
    query = invoke("schema", "plan", *store, "--schema", "wider.pg", "--queries", "born.gq")
    assert query.exit_code == 1
    assert "breaks born.gq:1:" in query.stdout
    plain = json.loads(invoke("schema", "plan", *store, "--schema", "narrower.pg", "--json").stdout)
    assert (plain["violation_count"], plain["rows"]) == (1, {"node:Person": 1})


def test_a_plan_needs_one_schema_in_force(here: Path) -> None:
    answer = invoke("schema", "plan", "--schema", "wider.pg")
    assert answer.exit_code == 2
    assert "no graph is named" in answer.stderr
    both = invoke("schema", "plan", "people.omni", "-s", "wider.pg", "--against", "people.pg")
    assert both.exit_code == 2
    assert "either a graph or --against" in both.stderr


def test_values_go_for_good_only_when_asked(here: Path) -> None:
    (here / "narrow.pg").write_text("node Person { name: String @key }")
    command = ("schema", "apply", "people.omni", "--schema", "narrow.pg")
    before = og.open("people.omni").snapshot().commit
    soft, hard = invoke(*command, "--dry-run"), invoke(*command, "--dry-run", "--allow-data-loss")
    assert "earlier versions stay readable" in soft.stdout
    assert "the values go for good" in hard.stdout
    assert og.open("people.omni").snapshot().commit == before
    done = invoke(*command, "--allow-data-loss", "--json")
    modes = {step.get("mode") for step in json.loads(done.stdout)["steps"]}
    assert "hard" in modes


def test_a_plan_names_a_copy_of_the_schema_that_was_edited(here: Path) -> None:
    (here / "people.omni" / "_schema.pg").write_text("node Other { name: String @key }")
    answer = invoke("schema", "plan", "people.omni", "--schema", "people.pg")
    assert answer.exit_code == 0
    assert "_schema.pg is not the schema that is in force" in " ".join(answer.stdout.split())
