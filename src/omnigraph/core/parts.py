"""The parts that the write path and recovery of one graph share."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.destinations import Destinations
from omnigraph.core.manifest import Manifest
from omnigraph.core.publish import Publisher
from omnigraph.core.recovery.intent import IntentLog
from omnigraph.core.recovery.liveness import Live, Liveness
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One graph, taken apart."""

    root: str
    tables: Tables
    manifest: Manifest
    destinations: Destinations
    publisher: Publisher
    intents: IntentLog
    live: Live
    liveness: Liveness
    local: bool  # whether the graph lies on a disk of this machine
    clock: Clock
    ids: Ids
