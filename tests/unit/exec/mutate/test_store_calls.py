"""The number of storage calls that a change of one entity makes, as reviewed numbers.

`OMNIGRAPH_REGENERATE=1 pytest tests/unit/exec/mutate/test_store_calls.py` writes them anew; read
the diff. They do not grow with a type whose identity is indexed.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from omnigraph.store.table import Table
from tests.graphs import Delta, make, write
from tests.unit.exec.mutate.support import Lab, counts

GOLDEN = Path(__file__).parent / "golden" / "store_calls.json"
REGENERATE = bool(os.environ.get("OMNIGRAPH_REGENERATE"))
SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Note { text: String }
edge Knows: Person -> Person
edge Likes: Person -> Person
edge Wrote: Person -> Note
"""
OPERATIONS = {
    "insert a new node": 'insert Person { name: "new", age: 1 }',
    "insert a new node with a unique value": 'insert Person { name: "new2", email: "e" }',
    "insert a node without a key": 'insert Note { text: "t" }',
    "insert an edge": 'insert Knows { from: "p1", to: "p2" }',
    "replace a node": 'insert Person { name: "p3", age: 5 }',
    "update a node": 'update Person set { age: 7 } where name = "p4"',
    "update nothing": 'update Person set { age: 7 } where name = "nobody"',
    "delete a node without edges": 'delete Person where name = "p5"',
    "delete a node with edges": 'delete Person where name = "p1"',
    "delete an edge": 'delete Likes where from = "p2" and to = "p2"',
}


def grown(folder: Path, people: int) -> Lab:
    repo = make(Root.parse(str(folder / f"graph{people}")), SCHEMA)
    rows = [{"id": f"p{n}", "name": f"p{n}", "age": n % 100} for n in range(people)]
    likes = [{"id": f"l{n}", "src": f"p{n}", "dst": f"p{n}"} for n in (2, 6, 7, 8)]
    write(repo, {"node:Person": Delta(insert=rows), "edge:Likes": Delta(insert=likes)})
    ensure_indices(repo)
    lab = Lab(repo)
    # What a handle reads once, whatever it does, is not counted.
    lab.run('insert Person { name: "warm" } insert Note { text: "warm" }')
    lab.run('insert Knows { from: "p6", to: "p7" }')
    return lab


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of rows that each read of a table returned."""
    seen: list[int] = []
    read, stream, take = Table._collect, Table._stream, Table.take

    def counted_read(self: Table, *args: Any, **options: Any) -> Any:
        found = read(self, *args, **options)
        if "__manifest" not in self.pin.path:
            seen.append(found.num_rows)
        return found

    def counted_stream(self: Table, *args: Any, **options: Any) -> Any:
        found = stream(self, *args, **options).read_all()
        if "__manifest" not in self.pin.path:
            seen.append(found.num_rows)
        return found.to_reader()

    def counted_take(self: Table, *args: Any, **options: Any) -> Any:
        found = take(self, *args, **options)
        seen.append(found.num_rows)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Table, "_collect", counted_read)
        patch.setattr(Table, "_stream", counted_stream)
        patch.setattr(Table, "take", counted_take)
        yield seen


def measure(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, body in OPERATIONS.items():
        with telemetry.counting() as counting, rows_read(monkeypatch) as seen:
            done = lab.run(body)
        assert (sum(counts(done)) == 0) == (name == "update nothing")
        assert max(seen, default=0) <= 2, name
        tables = {key: n for key, n in counting.snapshot().items() if key.startswith("table.")}
        found[name] = {**tables, "rows read": sum(seen)}
    return found


def test_the_counts_are_the_reviewed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = measure(grown(tmp_path, 20), monkeypatch)
    if REGENERATE:
        GOLDEN.write_text(json.dumps(small, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert small == json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert measure(grown(tmp_path, 20_000), monkeypatch) == small
