"""The storage itself, by hand: a merge into a table, a scan of tables that is spelled as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import lance
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench.load.contender import Pass
from bench.load.ours import written
from bench.load.schema import EDGES
from omnigraph.core.repository import Repository, components
from omnigraph.store.root import Root
from omnigraph.store.versions.gateway import STORAGE_VERSION
from omnigraph.types import MAIN

BATCH_ROWS: Final = 65_536


def create(*, source: str, target: str) -> Pass:
    """A table of the people in a Parquet file, as a graph would store them."""

    def run() -> None:
        lance.write_dataset(
            _with_id(pq.read_table(source)),
            target,
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
        )

    return Pass(run=run, count=lambda: {"Person": lance.dataset(target).count_rows()})


def index(*, target: str) -> Pass:
    """The index on ids."""
    return Pass(
        run=lambda: lance.dataset(target).create_scalar_index("id", "BTREE"),
        count=lambda: {"Person": lance.dataset(target).count_rows()},
    )


def merge(*, source: str, target: str) -> Pass:
    """Rows of a Parquet file merged into a table by id."""

    def run() -> None:
        rows = _with_id(pq.read_table(source))
        builder = lance.dataset(target).merge_insert("id").when_matched_update_all()
        builder.when_not_matched_insert_all().execute(rows)

    return Pass(run=run, count=lambda: {"Person": lance.dataset(target).count_rows()})


def export_ndjson(*, graph: str, target: str) -> Pass:
    """All rows of a graph as the lines that a load takes."""
    about: dict[str, Any] = {}
    tables = _tables(graph)

    def run() -> None:
        with Path(target).open("wb") as out:
            for name, place in tables:
                scanner = lance.dataset(place).scanner(batch_size=BATCH_ROWS)
                for batch in scanner.to_batches():
                    _enveloped(name, batch).write_ndjson(out)

    return Pass(run=run, count=lambda: _count(tables, target, about), about=about)


def export_parquet(*, graph: str, target: str) -> Pass:
    """All rows of a graph as one Parquet file per type."""
    about: dict[str, Any] = {}
    tables = _tables(graph)

    def run() -> None:
        for name, place in tables:
            scanner = lance.dataset(place).scanner(batch_size=BATCH_ROWS)
            path = Path(target) / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            with pq.ParquetWriter(path, scanner.projected_schema, compression="zstd") as out:
                for batch in scanner.to_batches():
                    out.write_batch(batch)

    return Pass(run=run, count=lambda: _count(tables, target, about), about=about)


def _tables(graph: str) -> list[tuple[str, str]]:
    """The types of a graph and where their tables are."""
    root = Root.parse(graph)
    pins = Repository.open(root, components(root)).snapshot(MAIN).tables
    return [
        (key.partition(":")[2], f"{graph}/{pin.path}") for key, pin in pins.items() if pin.row_count
    ]


def _with_id(rows: pa.Table) -> pa.Table:
    return rows.add_column(0, "id", rows["key"])


def _enveloped(name: str, batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.DataFrame(batch)
    if name not in EDGES:
        return frame.select(type=pl.lit(name), data=pl.struct(pl.all()))
    data = pl.struct(pl.exclude("src", "dst"))
    return frame.select(edge=pl.lit(name), **{"from": "src", "to": "dst"}, data=data)


def _count(tables: Sequence[tuple[str, str]], target: str, about: dict[str, Any]) -> dict[str, int]:
    about.update(bytes=written(Path(target)))
    return {name: lance.dataset(place).count_rows() for name, place in tables}
