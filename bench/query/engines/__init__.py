"""The engines that are compared. Their packages are imported only when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

THREADS: Final = 2
MEMORY_BYTES: Final = 4 << 30  # for engines that reserve memory

# Gives the rows as Python values; in which container is up to the engine.
Ask: TypeAlias = Callable[[Mapping[str, Any]], Any]


class Adapter(Protocol):
    """One engine."""

    def load(self, data: Path, home: Path) -> None:
        """Fill an empty folder from the generated files, with the indexes that help."""
        ...

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Open what was loaded; a call per question that the engine can answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Where to find an engine."""

    name: str
    adapter: str  # module:class
    package: str  # whose version is told
    peer: bool = True  # lives in the environment of the peers
    recipe: int = 1  # raised when loading changes, so that it is done anew


OURS: Final = "omnigraph"

ENGINES: Final = {
    info.name: info
    for info in (
        EngineInfo(
            name=OURS,
            adapter="bench.query.engines.ours:Ours",
            package="omnigraph",
            peer=False,
        ),
        EngineInfo(name="ladybug", adapter="bench.query.engines.cypher:Ladybug", package="ladybug"),
        EngineInfo(name="kuzu", adapter="bench.query.engines.cypher:Kuzu", package="kuzu"),
        EngineInfo(name="duckdb", adapter="bench.query.engines.duck:Duck", package="duckdb"),
        EngineInfo(
            name="lance-graph",
            adapter="bench.query.engines.lance_graph:LanceGraph",
            package="lance-graph",
        ),
        EngineInfo(
            name="lancedb", adapter="bench.query.engines.lance_db:LanceDb", package="lancedb"
        ),
    )
}


def adapter(name: str) -> Adapter:
    """The adapter of an engine."""
    module, _, kind = ENGINES[name].adapter.partition(":")
    made: Adapter = getattr(importlib.import_module(module), kind)()
    return made
