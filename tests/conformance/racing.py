"""Contenders for races: the same work in threads and in spawned processes."""

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from omnigraph.store.failures import StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import Btree, IndexSpec, Pin, Staged, Tables, open_tables

T = TypeVar("T")
# Only a hang is cut off: on a busy machine a new process takes a minute to import what it needs.
PATIENCE_S = 600

PEOPLE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])


def people(*ids: str, v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=PEOPLE)


class Starter(Protocol):
    """What contenders wait at before they begin."""

    def wait(self) -> Any: ...

    def abort(self) -> None: ...


def in_threads(work: Callable[[int], T], racers: int) -> list[T]:
    """Run contenders at once in threads of this process."""
    with ThreadPoolExecutor(racers) as pool:
        return list(pool.map(work, range(racers)))


def in_processes(work: Callable[..., Any], racers: int, *args: Any) -> list[Any]:
    """Run contenders at once in processes; ``work(starter, racer, *args)`` must be a function."""
    context = multiprocessing.get_context("spawn")
    starter = context.Barrier(racers, timeout=PATIENCE_S)
    queue = context.Queue()
    processes = [
        context.Process(target=_child, args=(work, queue, starter, racer, *args))
        for racer in range(racers)
    ]
    for process in processes:
        process.start()
    results = [queue.get(timeout=PATIENCE_S) for _ in processes]
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
        process.close()
    queue.close()
    queue.join_thread()
    return [result for _, result in sorted(results)]


def _child(work: Callable[..., Any], queue: Any, starter: Starter, racer: int, *args: Any) -> None:
    try:
        queue.put((racer, work(starter, racer, *args)))
    except Exception as error:
        # Whoever waits for this contender must not wait for ever.
        starter.abort()
        queue.put((racer, repr(error)))
        raise


def outcome(action: Callable[[], int]) -> str:
    """Say how a contender fared: the version it made, or the kind of its failure."""
    try:
        return str(action())
    except StorageFailure as failure:
        return failure.kind.value


def stage_some(tables: Tables, pin: Pin, racer: int) -> Staged:
    """Stage an insert, or an index: both are made for the same version."""
    table = tables.open(pin)
    if racer % 4 == 3:
        staged = tables.stage_indexes(
            table, [IndexSpec("id", Btree(), "id")], uuid=f"r{racer}-{pin.version}"
        )
    else:
        rows = people(f"{pin.version}-{racer}")
        staged = tables.stage(table, inserts=rows, uuid=f"r{racer}-{pin.version}")
    assert staged is not None
    return staged


def land_rounds(starter: Starter, racer: int, root: Root, rounds: int) -> list[str]:
    """In each round stage for the head and land; all contenders begin a round together."""
    tables = open_tables(root, durable=False)
    outcomes = []
    for _ in range(rounds):
        starter.wait()
        pin = Pin("t", tables.head("t"))
        staged = stage_some(tables, pin, racer)
        starter.wait()
        outcomes.append(outcome(partial(tables.land, staged)))
    return outcomes


def merge_rounds(starter: Starter, racer: int, root: Root, keys: Sequence[str]) -> list[str]:
    """In each round merge one contested key and one of our own, judged at one common base."""
    tables = open_tables(root, durable=False)
    outcomes = []
    for key in keys:
        starter.wait()
        pin = Pin("m", tables.head("m"))
        starter.wait()
        rows = people(key, f"{key}-own-{racer}", v=racer)
        outcomes.append(outcome(partial(tables.merge_rows, pin, "id", rows)))
    return outcomes


def create_once(starter: Starter, racer: int, root: Root) -> list[str]:
    """Create one table together."""
    tables = open_tables(root, durable=False)
    starter.wait()
    return [outcome(lambda: tables.create("c", PEOPLE, rows=people(f"by-{racer}")))]


def thread_starter(racers: int) -> threading.Barrier:
    """A barrier for contenders in threads."""
    return threading.Barrier(racers, timeout=PATIENCE_S)


def first_landing(starter: Starter, racer: int, root: Root) -> list[str]:
    """Land the first rows of an empty table."""
    tables = open_tables(root, durable=False)
    table = tables.open(Pin("t", 1))
    staged = tables.stage(table, inserts=people(f"by-{racer}"), uuid=f"first-{racer}")
    assert staged is not None
    starter.wait()
    return [outcome(lambda: tables.land(staged))]


def fork_once(tables: Tables) -> str:
    """Fork under a name that others want, too."""
    try:
        tables.fork("t", "f", Pin("t", 1))
    except StorageFailure as failure:
        return failure.kind.value
    return "made"
