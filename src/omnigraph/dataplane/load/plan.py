"""The plan of a load, as its tasks get it: the tables, the types, and the division of keys.

A plan can be pickled. What only this process has, such as open tables, stays behind then, and the
task opens what it needs where it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from omnigraph.core.layout import STAGING, table_key
from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.request import Fill
from omnigraph.dataplane.progress import StopRequested
from omnigraph.dataplane.staging import Staging
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.embed.source import Embeddings
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.runtime import cancellation
from omnigraph.store.tables import Pin, Table, WrittenBy
from omnigraph.types import LoadMode


class Targets:
    """The tables that fragments are written into, by table key.

    On a branch that is a fork of the table, which has to be made. Here it is made when the first
    rows of a type come; a task elsewhere cannot make it, so before a plan travels, `make_all` makes
    those of every type that the input may name.
    """

    def __init__(self, make: Callable[[str], Pin]) -> None:
        """Make a table writable with this."""
        self._make: Callable[[str], Pin] | None = make
        self._pins: dict[str, Pin] = {}
        self._lock = threading.Lock()

    def pin(self, key: str) -> Pin:
        """The table to write the rows of a type into."""
        with self._lock:
            found = self._pins.get(key)
            if found is None:
                assert self._make is not None, f"{key} was not made writable in time"
                found = self._pins[key] = self._make(key)
            return found

    def make_all(self, keys: Iterable[str]) -> None:
        """Make the tables of these types writable now."""
        for key in keys:
            self.pin(key)

    @property
    def made(self) -> Mapping[str, Pin]:
        """The tables that were made writable so far."""
        with self._lock:
            return dict(self._pins)

    def __getstate__(self) -> dict[str, Pin]:
        return dict(self._pins)

    def __setstate__(self, pins: dict[str, Pin]) -> None:
        self._make, self._pins, self._lock = None, pins, threading.Lock()


class StopSignal:
    """The request that tasks of this process stop; tasks of other processes are not stopped."""

    def __init__(self, is_stopped: Callable[[], bool] | None = None) -> None:
        """Ask this from time to time."""
        self._is_stopped = is_stopped

    def check(self) -> None:
        """Stop here if that was asked for, or the operation's time is up.

        Raises:
            StopRequested: The operation was interrupted, or another part of it failed.
            GraphError: Its time is up, or its caller cancelled it.
        """
        cancellation.check()
        if self._is_stopped is not None and self._is_stopped():
            raise StopRequested

    def __getstate__(self) -> bool:
        return True

    def __setstate__(self, _: bool) -> None:
        self._is_stopped = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """One load, as its tasks see it.

    Attributes:
        load_id: Names the load; ids of entities that come without one are made from it.
        incarnation: Of the branch; one of the same name that is made later is another one.
        worker_tables: The tables.
        targets: Where rows are written.
        staging: Where tasks put what other tasks need.
        catalog: The types.
        mode: What becomes of known entities.
        replace: In a merge, known entities lose what the input does not name.
        fresh: In a merge, the keyed types that have no entity yet: their rows are all new.
        fill: The rows only change known entities; see `LoadRequest`.
        partitions: Into how many parts keys are divided.
        violations_max: How many violations are reported.
        tells_all: All of them go to a file, too.
        fingerprints: Receipts tell the fingerprint of the rows that were read.
        fragment_bytes: About how much is written at once.
        driver_keys: How many keys the driver may judge itself when there are workers.
        embeddings: What computes vectors from texts.
        stop: Whether to stop.
    """

    load_id: str
    incarnation: str
    worker_tables: WorkerTables
    targets: Targets
    staging: Staging
    catalog: Catalog
    mode: LoadMode
    replace: bool
    fresh: frozenset[str]
    fill: Fill | None
    partitions: int
    violations_max: int
    tells_all: bool = False
    fingerprints: bool = False
    fragment_bytes: int = tuning.active.fragment_bytes
    driver_keys: int = tuning.active.driver_keys_max
    embeddings: Embeddings
    stop: StopSignal

    @property
    def by(self) -> WrittenBy:
        """The operation and the folder that data files of the load are written by."""
        return WrittenBy(self.load_id, f"{STAGING}/{self.load_id}")

    def target(self, key: str) -> Table:
        """The table to write the rows of a type into."""
        return self.worker_tables.tables.open(self.targets.pin(key))

    def is_matched(self, entity: EntityType) -> bool:
        """True if rows of the type that have an id may be those of known entities."""
        return self.mode == "merge" and key_of(entity) not in self.fresh


def key_of(entity: EntityType) -> str:
    """The table key of a type."""
    return table_key(entity.kind, entity.name)
