"""The data that loads are measured with, and that everybody reads the same of it."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.load import floor, generate, ours, raw
from bench.load.generate import Size, tables
from bench.load.schema import DIM, DOCS, EDGES, GRAPH, NODES, SECTORS, TYPES
from omnigraph.lang import compile_schema

SCALE = 0.0001  # as small as it gets
SIZE = Size.of(SCALE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("graph")
    assert generate.graph(place, SCALE) == SIZE
    return place


def test_a_seed_gives_one_graph() -> None:
    first, again = tables(SIZE), tables(SIZE)
    assert all(again[name].equals(table) for name, table in first.items())
    assert not tables(SIZE, seed=1)["Knows"].equals(first["Knows"])


def test_the_full_size_is_what_the_targets_are_about() -> None:
    size = Size.of(1)
    assert (size.persons + size.companies, size.knows + size.works) == (1_500_000, 2_500_000)


def test_the_rows_keep_the_rules_of_the_schema() -> None:
    catalog = compile_schema(GRAPH)
    assert {entity.name for entity in (*catalog.nodes, *catalog.edges)} == set(TYPES)
    found = tables(SIZE)
    keys = {name: set(found[name]["key"].to_pylist()) for name in NODES}
    assert {name: len(each) for name, each in keys.items()} == {
        name: SIZE.counts[name] for name in NODES
    }
    assert set(found["Company"]["sector"].to_pylist()) <= set(SECTORS)
    for name, target in (("Knows", "Person"), ("WorksAt", "Company")):
        assert set(found[name]["from"].to_pylist()) <= keys["Person"]
        assert set(found[name]["to"].to_pylist()) <= keys[target]
    assert max(Counter(found["WorksAt"]["from"].to_pylist()).values()) == 1


def test_the_lines_say_what_the_tables_hold(folder: Path) -> None:
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in TYPES}
    order = []
    for text in (folder / "graph.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        name = line.get("type") or line["edge"]
        ends = {key: line[key] for key in ("from", "to") if key in line}
        rows[name].append({**ends, **line["data"]})
        order.append(name)
    for name, table in tables(SIZE).items():
        told = (
            table.set_column(
                table.schema.get_field_index("since"), "since", table["since"].cast(pa.string())
            )
            if "since" in table.column_names
            else table
        )
        assert rows[name] == told.to_pylist()
        assert pq.read_table(folder / f"{name}.parquet").equals(table)
    assert set(order[: SIZE.persons + SIZE.companies]) == set(NODES)
    assert order[:200].count("Company") > 0  # in no order, so that routing is work


def test_what_is_there_is_not_made_again(folder: Path) -> None:
    before = (folder / "graph.jsonl").stat().st_mtime_ns
    generate.graph(folder, SCALE)
    assert (folder / "graph.jsonl").stat().st_mtime_ns == before


@pytest.mark.parametrize("ids", [True, False])
def test_the_floor_writes_every_row(folder: Path, tmp_path: Path, ids: bool) -> None:
    lines = floor.ndjson(
        source=str(folder / "graph.jsonl"), types=TYPES, target=str(tmp_path / "a"), ids=ids
    )
    files = floor.parquet(source=str(folder), types=TYPES, target=str(tmp_path / "b"), ids=ids)
    for each in (lines, files):
        each.run()
        assert each.count() == SIZE.counts


def test_the_floor_decodes_what_was_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(floor, "SPLIT_BYTES", 100_000)
    path = folder / "graph.jsonl"
    ranges = floor.ranges(path)
    assert len(ranges) > 2
    found: dict[str, list[pa.Table]] = {name: [] for name in TYPES}
    for start, stop in ranges:
        for name, rows in floor.decoded(path, start, stop):
            found[name].append(rows)
    for name, table in tables(SIZE).items():
        names = ["src", "dst", *table.column_names[2:]] if name in EDGES else table.column_names
        assert pa.concat_tables(found[name]).equals(table.rename_columns(names))


def test_documents_come_as_columns_and_as_lines(tmp_path: Path) -> None:
    count = generate.docs(tmp_path / "docs", SCALE)
    table = pq.read_table(tmp_path / "docs" / "Doc.parquet")
    assert (table.num_rows, table.schema.field("embedding").type) == (
        count,
        pa.list_(pa.float32(), DIM),
    )
    source = str(tmp_path / "docs" / "docs.jsonl")
    least = floor.ndjson(source=source, types=["Doc"], target=str(tmp_path / "least"))
    mine = ours.load(source=source, target=str(tmp_path / "graph"), engine="inprocess", schema=DOCS)
    for each in (least, mine):
        each.run()
    assert least.count() == mine.count()
    mine.close()


def test_a_graph_and_the_raw_storage_merge_and_export_alike(tmp_path: Path) -> None:
    base, change = generate.merging(tmp_path / "merge", SCALE)
    whole, some = (str(tmp_path / "merge" / f"{name}.parquet") for name in ("base", "change"))
    table, graph = str(tmp_path / "table"), str(tmp_path / "graph")
    passes = [
        raw.create(source=whole, target=table),
        ours.load(source={"Person": whole}, target=graph, engine="inprocess", schema=GRAPH),
    ]
    for each in passes:
        each.run()
        assert each.count()["Person"] == base
        each.close()
    merges = [
        raw.merge(source=some, target=table),
        ours.load(source={"Person": some}, target=graph, engine="inprocess", mode="merge"),
    ]
    for each in merges:
        each.run()
        assert each.count()["Person"] == base + change - change // 2
        each.close()
    assert merges[1].about["engine"] == "inprocess"
    exports = [
        raw.export_ndjson(graph=graph, target=str(tmp_path / "raw.jsonl")),
        ours.export(
            graph=graph, target=str(tmp_path / "ours.jsonl"), engine="inprocess", format="ndjson"
        ),
    ]
    for each in exports:
        each.run()
        assert each.count()["Person"] == base + change - change // 2
        assert each.about["bytes"] > 0
        each.close()
    theirs, mine = (
        {_person(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()}
        for name in ("raw", "ours")
    )
    assert theirs == mine


def _person(text: str) -> tuple[object, ...]:
    data = json.loads(text)["data"]
    return tuple(data[name] for name in ("key", "age", "score", "since", "bio"))
