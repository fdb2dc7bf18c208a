"""Group `growth`: what one more small commit adds to storage, early and late in a history."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.commit import SCHEMA, Writer
from bench.report import STYLES
from omnigraph.cli import render
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.errors import JsonValue
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root
from omnigraph.types import MAIN

EARLY, LATE = 100, 5_000
WINDOW = 128  # so many commits are averaged: fragments are put together every 16 and every 128
HOT_ROWS = 50
RATIO_MAX = 1.2
_TABLE = "node:A"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a folder holds."""

    files: int
    size: int

    @classmethod
    def of(cls, folder: Path) -> "Footprint":
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        return cls(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True)
class Figure:
    """What one commit adds on average, around two moments of a history."""

    name: str
    early: float
    late: float

    @property
    def ratio(self) -> float:
        return self.late / self.early

    @property
    def verdict(self) -> str:
        return "met" if self.ratio <= RATIO_MAX else "MISSED"


def run(scale: float = 1.0) -> JsonValue:
    """Grow a graph in each way, tell what it took, and answer the figures."""
    late = max(EARLY + 2 * WINDOW, int(LATE * scale))
    figures = [
        *_grown("insert a row", late, lambda writer, _: writer.commit()),
        *_grown("update a row", late, _update_or_insert),
    ]
    screen = render.out()
    screen.line(("growth", "bold"), f": what a commit adds, of {EARLY} and of {late} commits")
    screen.table(
        ("case", "early", "late", "target", "verdict", "note"),
        [
            (
                each.name,
                f"{each.early:,.1f}",
                f"{each.late:,.1f}",
                f"<= {RATIO_MAX:g}x",
                (each.verdict, STYLES[each.verdict]),
                f"{each.ratio:.2f}x",
            )
            for each in figures
        ],
    )
    return [
        {"name": each.name, "early": each.early, "late": each.late, "ratio": each.ratio}
        for each in figures
    ]


def _grown(name: str, late: int, step: Callable[[Writer, int], None]) -> list[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        root = Root.parse(str(folder / "g"))
        accepted = AcceptedSchema(catalog=compile_schema(SCHEMA), text=SCHEMA)
        writer = Writer(Repository.init(root, accepted, components(root, durable=False)), [_TABLE])
        parts = {"": root.local_path, ", manifest alone": root.local_path / "__manifest"}
        seen: dict[int, dict[str, Footprint]] = {}
        for count in range(1, late + 1):
            step(writer, count)
            if count in (EARLY, EARLY + WINDOW, late - WINDOW, late):
                seen[count] = {part: Footprint.of(place) for part, place in parts.items()}
        return [figure for part in parts for figure in _figures(name, part, seen, late)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(
    name: str, part: str, seen: dict[int, dict[str, Footprint]], late: int
) -> tuple[Figure, Figure]:
    spans = [(EARLY, EARLY + WINDOW), (late - WINDOW, late)]
    files = [(seen[to][part].files - seen[at][part].files) / WINDOW for at, to in spans]
    sizes = [(seen[to][part].size - seen[at][part].size) / WINDOW for at, to in spans]
    return (
        Figure(f"{name}{part}: bytes", *sizes),
        Figure(f"{name}{part}: files", *files),
    )


def _update_or_insert(writer: Writer, count: int) -> None:
    if count <= HOT_ROWS:
        writer.commit()
        return
    repo = writer.repo
    base = repo.snapshot(MAIN)
    table = repo.writable_table(base, _TABLE)
    key = f"r{count % HOT_ROWS + 1}"
    found = table.read(filter=f"id = '{key}'", row_id=True, row_address=True)
    staged = repo.tables.stage(table, updates=found, uuid=repo.ids.new())
    if staged is None:
        raise AssertionError(f"there is no row {key}")
    write = TableWrite(table_key=_TABLE, staged=(staged,))
    commit = repo.new_commit(base, WriterKind.MUTATION)
    repo.commit(Prepared(base=base, commit=commit, tables=(write,)))
