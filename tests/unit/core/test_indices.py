"""Indexes by type of property: writes that change no row."""

from pathlib import Path

from omnigraph.core.maintenance.indices import ensure_indices, wanted_indexes
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root
from omnigraph.store.tables import (
    Btree,
    Fts,
    Vector,
)
from omnigraph.types import Metric
from tests.graphs import Delta, make, reopen, write

SCHEMA = """
node Doc {
  slug: String @key
  title: String? @index
  kind: enum(note, book)? @index
  year: I32? @index
  seen: DateTime? @index
  plain: I64?
  tags: [String]?
  vector: Vector(4)? @index @metric(l2)
  @index(title, year)
}
edge Cites: Doc -> Doc { weight: F64? @index }
"""
DOC, CITES = "node:Doc", "edge:Cites"


def test_the_index_follows_the_type_of_the_property() -> None:
    catalog = compile_schema(SCHEMA)
    specs = {(spec.column, spec.kind) for spec in wanted_indexes(catalog.node_by_name["Doc"])}
    assert specs == {
        ("id", Btree()),
        ("slug", Btree()),
        ("slug", Fts()),
        ("title", Btree()),
        ("title", Fts()),
        ("kind", Btree()),
        ("year", Btree()),
        ("seen", Btree()),
        ("vector", Vector(Metric.L2, 4)),
    }
    ends = {(spec.column, spec.kind) for spec in wanted_indexes(catalog.edge_by_name["Cites"])}
    assert ends == {(name, Btree()) for name in ("id", "src", "dst", "weight")}


def rows(*names: str, vector: list[float] | None = None) -> Delta:
    return Delta(
        insert=[
            {"id": name, "slug": name, "title": f"about {name}", "year": 2000, "vector": vector}
            for name in names
        ]
    )


def test_missing_indexes_are_built_in_one_commit(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(repo, {DOC: rows("a", "b", vector=[1.0, 0.0, 0.0, 0.0])})
    before = repo.read(repo.snapshot(), DOC)
    report = ensure_indices(repo, actor="indexer")
    assert report.published is not None
    assert (report.published.commit.kind, report.published.commit.actor) == (
        "ensure_indices",
        "indexer",
    )
    names = {index.name for index in repo.table(repo.snapshot().pin(DOC)).indexes()}
    assert names == {name for key, name in report.built if key == DOC}
    assert {item.table_key for item in report.pending} == {CITES}
    assert {item.reason for item in report.pending} == {"the table is empty"}
    assert repo.read(repo.snapshot(), DOC).equals(before)
    assert ensure_indices(repo).published is None


def test_a_column_without_vectors_waits(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(repo, {DOC: rows("a")})
    report = ensure_indices(repo)
    waiting = [item.column for item in report.pending if item.table_key == DOC]
    assert waiting == ["vector"]


def test_writes_build_nothing_and_find_what_is_not_covered(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    write(repo, {DOC: rows("a")})
    ensure_indices(repo)
    write(repo, {DOC: rows("b")})
    table = repo.table(repo.snapshot().pin(DOC))
    covered = next(index.fragments for index in table.indexes() if index.name == "id_ordered")
    assert covered < set(table.fragment_ids())
    assert sorted(table.locate(["a", "b", "c"])["id"].to_pylist()) == ["a", "b"]


def test_a_damaged_index_is_built_anew(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "g"))
    repo = make(root, SCHEMA)
    write(repo, {DOC: rows("a", "b")})
    ensure_indices(repo)
    before = repo.read(repo.snapshot(), DOC)
    name = repo.snapshot().pin(DOC).path
    for path in (root.local_path / name / "_indices").rglob("page_lookup.lance"):
        path.write_bytes(path.read_bytes()[:-1])
    again = reopen(root)
    damaged = again.table(again.snapshot().pin(DOC)).damaged_indexes()
    assert damaged == {
        f"{column}_ordered" for column in ("id", "slug", "title", "kind", "year", "seen")
    }
    report = ensure_indices(again)
    assert {name for key, name in report.built if key == DOC} == damaged
    table = again.table(again.snapshot().pin(DOC))
    assert not table.damaged_indexes()
    assert again.read(again.snapshot(), DOC).equals(before)
    assert ensure_indices(again).published is None
