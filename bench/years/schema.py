"""Steps of schema changes on a large type, and those that write values also by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation

import omnigraph as og
from bench.figure import Figure, Taken

_ROWS: Final = 5_000_000
_ROUNDS: Final = 3
_FRAGMENT_ROWS: Final = 1 << 20
_LIMIT_S: Final = 0.1
_FLOOR_MAX: Final = 1.5


def figures(folder: Path, scale: float) -> list[Figure]:
    """Add, rename, drop, fill and widen properties of one type, some rounds in turns."""
    rows = int(_ROWS * scale)
    content = _rows(rows)
    columns = ["a: I64", "b: String?", *(f"n{turn}: I32" for turn in range(_ROUNDS))]
    names = ("add nullable", "rename", "drop", "add with default", "widen I32 to I64")
    ours = {name: Taken.nothing() for name in names}
    raw = {name: Taken.nothing() for name in names[3:]}
    with og.init(str(folder / "graph"), schema=_schema(columns)) as graph:
        graph.load({"Item": content}, mode="append")
        bare = _stored(folder / "bare", content)
        for turn in range(_ROUNDS):
            added, renamed = f"x{turn}: String?", f'y{turn}: String? @rename_from("x{turn}")'
            widened = [each.replace(f"n{turn}: I32", f"n{turn}: I64") for each in columns]
            filled = f"f{turn}: I64 @default(7)"
            steps = {
                "add nullable": [*columns, added],
                "rename": [*columns, renamed],
                "drop": columns,
                "add with default": [*columns, filled],
                "widen I32 to I64": [*widened, filled],
            }
            for name, wanted in steps.items():
                text = _schema(wanted)
                ours[name].time(lambda: graph.schema.apply(text))  # noqa: B023
            columns = [*widened, filled]
            raw["add with default"].time(lambda: _fill(bare, f"f{turn}"))  # noqa: B023
            bare = lance.dataset(str(folder / "bare"))
            raw["widen I32 to I64"].time(lambda: _widen(bare, f"n{turn}"))  # noqa: B023
            bare = lance.dataset(str(folder / "bare"))
    found = [ours[name].figure(f"{name}, {rows:,} rows").below(_LIMIT_S) for name in names[:3]]
    for name in names[3:]:
        floor = raw[name].figure(f"{name}, by hand")
        found += [ours[name].figure(f"{name}, {rows:,} rows").at_most(_FLOOR_MAX, floor), floor]
    return found


def _schema(columns: list[str]) -> str:
    return f"node Item {{ name: String @key  {'  '.join(columns)} }}"


def _rows(count: int) -> pa.Table:
    numbers = np.arange(count)
    small = pa.array(numbers % 1000, pa.int32())
    return pa.table(
        {
            "name": [f"k{number:09}" for number in range(count)],
            "a": pa.array(numbers * 7),
            "b": [f"city {number % 1000}" for number in range(count)],
            **{f"n{turn}": small for turn in range(_ROUNDS)},
        }
    )


def _stored(folder: Path, content: pa.Table) -> LanceDataset:
    return lance.write_dataset(
        content.append_column("id", content.column("name")),
        str(folder),
        enable_stable_row_ids=True,
        max_rows_per_file=_FRAGMENT_ROWS,
    )


def _fill(table: LanceDataset, name: str) -> None:
    _merge(table, {name: "cast(7 as bigint)"})


def _widen(table: LanceDataset, name: str) -> None:
    _merge(table, {f"{name}_wide": f"cast({name} as bigint)"})


def _merge(table: LanceDataset, columns: dict[str, str]) -> None:
    done: list[tuple[Any, Any]] = [each.merge_columns(columns) for each in table.get_fragments()]
    operation = LanceOperation.Merge([fragment for fragment, _ in done], done[0][1])
    LanceDataset.commit(table.uri, operation, read_version=table.version)
