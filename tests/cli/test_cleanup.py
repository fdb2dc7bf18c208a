"""`omnigraph cleanup` and `graph.cleanup()`: what is told, what goes, and what is refused."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Gone, InvalidInput
from tests.cli.support import SCHEMA, invoke

COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of five commits that were made an hour ago."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.pg").write_text(SCHEMA)
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    with og.open("people.omni") as graph:
        for name in "abcd":
            graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')
    an_hour_ago = os.stat("people.omni").st_mtime - 3_600
    for folder, _, names in os.walk("people.omni"):
        for name in names:
            os.utime(Path(folder, name), (an_hour_ago, an_hour_ago))
    return tmp_path


def test_it_is_confirmed_in_the_words_of_the_original_too(here: Path) -> None:
    done = invoke("cleanup", "people.omni", "--keep", "2", "--confirm")
    assert done.exit_code == 0
    assert "went; 2 states stay" in done.stdout
    assert invoke("repair", "people.omni", "--confirm").exit_code == 0


def test_a_place_without_a_graph_is_not_served(here: Path) -> None:
    done = invoke("serve", "peple.omni")
    assert (done.exit_code, "there is no graph at peple.omni" in done.stderr) == (1, True)


def test_it_tells_first_and_removes_when_it_is_told_to(here: Path) -> None:
    told = invoke("cleanup", "people.omni", "--keep", "2")
    assert told.exit_code == 0
    assert "would go; 2 states stay" in told.stdout
    with og.open("people.omni") as graph:
        assert graph.query(COUNT, at="main~3")[0]["n"] == 1
    done = json.loads(invoke("cleanup", "people.omni", "--keep", "2", "--yes", "--json").stdout)
    assert (done["states"], done["dry_run"]) == (2, False)
    assert done["bytes"] > 0
    assert {table["type"] for table in done["tables"]} == {None, "node:Person"}
    with og.open("people.omni") as graph:
        assert graph.query(COUNT, at="main~1")[0]["n"] == 3
        with pytest.raises(Gone, match="baseline"):
            graph.query(COUNT, at="main~3")
        with pytest.raises(Gone, match="baseline"):
            graph.changes.poll()
    again = invoke("cleanup", "people.omni", "--keep", "2", "--yes")
    assert again.stdout == "0 versions, 0 files, 0 bytes went; 2 states stay\n"
    again = invoke("cleanup", "people.omni", "--keep", "1")
    assert again.stdout.endswith(" would go; 1 state stays\n")


def test_young_commits_stay(here: Path) -> None:
    with og.open("people.omni") as graph:
        for age in ("1h", "0.5d", timedelta(weeks=1)):
            assert graph.cleanup(keep=1, older_than=age, dry_run=True).states == 5
        assert graph.cleanup(older_than=timedelta(0), dry_run=True).states == 1


def test_what_stays_has_to_be_said(here: Path) -> None:
    refused = invoke("cleanup", "people.omni")
    assert refused.exit_code == 2
    assert "say which commits stay" in refused.stderr
    with og.open("people.omni") as graph:
        for age in ("soon", "-1d", timedelta(-1), 7, "9" * 400 + "d", "999999999w"):
            with pytest.raises(InvalidInput, match="such as 7d"):
                graph.cleanup(older_than=age)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="keep"):
            graph.cleanup(keep=0)


def test_an_open_feed_keeps_what_it_has_not_read(here: Path) -> None:
    with og.open("people.omni") as graph:
        pages = graph.changes.follow(graph.changes.poll(start="now").cursor)
        graph.mutate('query q() { insert Person { name: "e" } }')
        assert [event.change.id for event in next(pages).events] == ["e"]
        graph.mutate('query q() { insert Person { name: "f" } }')
        graph.mutate('query q() { insert Person { name: "g" } }')
        graph.cleanup(keep=1)
        assert [event.change.id for event in next(pages).events] == ["f", "g"]
        pages.close()  # type: ignore[attr-defined]


def test_an_export_holds_its_state_while_it_runs(here: Path) -> None:
    with og.open("people.omni") as graph:
        told = []

        def meanwhile(progress: og.Progress) -> None:
            told.append(graph.cleanup(keep=1, dry_run=True).states)

        graph.export("out", at="main~2", progress=meanwhile)
        assert set(told) == {2}
        assert graph.cleanup(keep=1, dry_run=True).states == 1
