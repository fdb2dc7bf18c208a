"""The context of writes to one graph, shared by the write path and recovery."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.journal.intent import IntentLog
from omnigraph.core.locks.liveness import Liveness
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.publish.destinations import Destinations
from omnigraph.core.publish.publisher import Publisher
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """The manifest, tables and intents of one graph, and its publisher."""

    root: str
    tables: Tables
    manifest: Manifest
    destinations: Destinations
    publisher: Publisher
    intents: IntentLog
    liveness: Liveness
    local: bool  # whether the graph lies on a disk of this machine
    clock: Clock
    ids: Ids
