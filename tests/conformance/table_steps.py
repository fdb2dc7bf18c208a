"""Steps that the suites of the table gateway share: change a table, and look at it."""

from typing import Any

import pyarrow as pa

from omnigraph.store.failures import FailureKind
from omnigraph.store.tables import Pin, Staged, Table, Tables
from tests.conformance.racing import people


def made(staged: Staged | None) -> Staged:
    assert staged is not None
    return staged


def insert(tables: Tables, pin: Pin, *ids: str, uuid: str = "u", v: int = 0) -> Pin:
    staged = made(tables.stage(tables.open(pin), inserts=people(*ids, v=v), uuid=uuid))
    return Pin(pin.path, tables.land(staged), pin.branch)


def ids(tables: Tables, pin: Pin) -> list[str]:
    found: list[str] = tables.open(pin).read(["id"])["id"].to_pylist()
    return found


def rewritten(table: Table, *keys: str, v: int) -> pa.Table:
    found = table.locate(list(keys))
    return found.add_column(1, "v", pa.array([v] * found.num_rows, pa.int64()))


def addresses(table: Table, *keys: str) -> pa.Table:
    return table.locate(list(keys)).select(["_rowaddr"])


def compacted(tables: Tables, path: str, branch: str | None = None) -> int:
    """Let another program compact a table by Lance's own means; return the new head."""
    handle = tables._gateway.open(path, None, branch)
    handle.optimize.compact_files(target_rows_per_fragment=1_000)
    return int(handle.version)


def kind_of(failing: Any) -> FailureKind:
    kind: FailureKind = failing.value.kind
    return kind
