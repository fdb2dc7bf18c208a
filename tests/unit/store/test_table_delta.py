"""What changed between two versions of a table."""

from pathlib import Path

import pytest

from omnigraph.core.repository import Repository
from omnigraph.store.reading.table_delta import table_delta
from omnigraph.store.root import Root
from omnigraph.store.tables import Table
from omnigraph.store.writing.inline_compaction import FANOUT
from tests.graphs import COMPANY, PERSON, Delta, companies, make, people, write


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return make(Root.parse(str(tmp_path / "graph")))


def table(repo: Repository, key: str = PERSON) -> Table:
    return repo.table(repo.snapshot().pin(key))


def told(new: Table, old: Table, rows_max: int = 1_000) -> tuple[list[str], list[int]]:
    delta = table_delta(new, old, ["id"], rows_max=rows_max)
    assert delta is not None
    return sorted(delta.written.column("id").to_pylist()), sorted(delta.removed.tolist())


def row_ids(of: Table) -> dict[str, int]:
    rows = of.read(["id"], row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in rows}


def test_inserts_updates_and_deletes(repo: Repository) -> None:
    write(repo, {PERSON: people("a", "b", "c")})
    old = table(repo)
    change = Delta(insert=[{"id": "d", "name": "d"}], update={"a": {"age": 5}}, delete=["b"])
    write(repo, {PERSON: change})
    new = table(repo)
    assert told(new, old) == (["a", "d"], [row_ids(old)["b"]])
    assert row_ids(new)["a"] == row_ids(old)["a"]


def test_other_columns_than_ids(repo: Repository) -> None:
    write(repo, {PERSON: people("a", age=3)})
    old = table(repo)
    write(repo, {PERSON: people("b", age=4)})
    delta = table_delta(table(repo), old, ["age", "name"], rows_max=10)
    assert delta is not None
    assert delta.written.select(["age", "name"]).to_pylist() == [{"age": 4, "name": "b"}]


def test_nothing_changed(repo: Repository) -> None:
    write(repo, {PERSON: people("a")})
    old = table(repo)
    write(repo, {COMPANY: companies("x")})
    assert told(table(repo), old) == ([], [])


def test_what_came_and_went_in_between(repo: Repository) -> None:
    write(repo, {PERSON: people("a")})
    old = table(repo)
    write(repo, {PERSON: people("b")})
    known = row_ids(old)
    write(repo, {PERSON: Delta(delete=["b"])})
    written, removed = told(table(repo), old)
    assert written == []
    assert not set(removed) & set(known.values())


def test_folding_reports_rows_again_as_they_are(repo: Repository) -> None:
    for number in range(FANOUT - 1):
        write(repo, {PERSON: people(f"p{number}")})
    old = table(repo)
    fragments = len(old.fragment_ids())
    for number in range(3):
        write(repo, {PERSON: people(f"q{number}")})
    new = table(repo)
    assert len(new.fragment_ids()) < fragments
    written, removed = told(new, old)
    assert {"q0", "q1", "q2"} <= set(written)
    assert removed == []
    assert {name: row_ids(new)[name] for name in row_ids(old)} == row_ids(old)


def test_large_changes_are_not_told(repo: Repository) -> None:
    write(repo, {PERSON: people("a")})
    old = table(repo)
    write(repo, {PERSON: people("b", "c", "d")})
    assert table_delta(table(repo), old, ["id"], rows_max=2) is None
    assert table_delta(table(repo), old, ["id"], rows_max=3) is not None
