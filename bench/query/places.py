"""Where the data, the filled engines and the environment of the peers live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PUBLISHED: Final = ROOT / "docs" / "bench"


def home() -> Path:
    """The folder of everything that measuring leaves behind; never in git."""
    return Path(os.environ.get("OMNIGRAPH_BENCH_HOME") or ROOT / ".bench")


@dataclass(frozen=True, slots=True)
class Place:
    """What belongs to one size of the graph."""

    folder: Path

    @classmethod
    def of(cls, scale: float) -> Place:
        """The place for a scale."""
        return cls(home() / f"scale-{scale:g}")

    @property
    def data(self) -> Path:
        """The generated files."""
        return self.folder / "data"

    @property
    def results(self) -> Path:
        """Where figures of a run go that is not published."""
        return self.folder / "results"

    def engine(self, name: str) -> Path:
        """The folder of one engine."""
        return self.folder / name
