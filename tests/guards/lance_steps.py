"""Tables of pylance itself, and steps on them that the facts about Lance share.

The storage design takes these facts for granted; `test_lance_*` has one per test. An upgrade that
changes a fact must turn red there, before it turns wrong elsewhere. Some pin traps: behaviour that
we work around and would rather lose. When such a test fails, the work-around may go.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

RACERS = 8
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("v", pa.int64()),
    ],
    metadata={"stamp": "1"},
)

Transaction: Any = lance.Transaction
commit: Any = LanceDataset.commit


def rows(*ids: str, v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def staged_create(uri: str, table: pa.Table) -> Any:
    return write_fragments(
        table,
        uri,
        mode="create",
        return_transaction=True,
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )


def create(uri: Path, *ids: str) -> Any:
    transaction = staged_create(str(uri), rows(*ids))
    return commit(str(uri), transaction, max_retries=0, enable_stable_row_ids=True)


def append(dataset: Any, *ids: str) -> Any:
    fragments = write_fragments(rows(*ids), dataset)
    return land(dataset, LanceOperation.Append(fragments), "append-" + "-".join(ids))


def land(dataset: Any, operation: Any, uuid: str = "u") -> Any:
    transaction = Transaction(read_version=dataset.version, operation=operation, uuid=uuid)
    return commit(dataset, transaction, max_retries=0)


def fields(dataset: Any) -> list[int]:
    return [field.id() for field in dataset.lance_schema.fields()]


def fenced(dataset: Any, *ids: str) -> Any:
    """An insert that carries the lowest fragment along, unchanged."""
    fence = min((f.metadata for f in dataset.get_fragments()), key=lambda f: f.id)
    new = write_fragments(rows(*ids), dataset)
    return LanceOperation.Update([], [fence], new, [], fields(dataset), "rewrite_rows")


def merge(dataset: Any, table: pa.Table, *, use_index: bool = False) -> None:
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.use_index(use_index).conflict_retries(0).execute(table)


def race(work: Callable[[int], Any], racers: int = RACERS) -> list[str]:
    """Run contenders at once; say who won and how the others failed."""
    barrier = threading.Barrier(racers)

    def run(racer: int) -> str:
        barrier.wait()
        try:
            work(racer)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return f"{type(error).__name__}: {error}"
        return "won"

    with ThreadPoolExecutor(racers) as pool:
        return list(pool.map(run, range(racers)))


def ids_at(uri: Path) -> list[str]:
    found: list[str] = lance.dataset(str(uri)).to_table()["id"].to_pylist()
    return sorted(found)
