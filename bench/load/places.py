"""Where the data and what contenders make of it live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.query.places import home


@dataclass(frozen=True, slots=True)
class Place:
    """What belongs to one size of the data."""

    folder: Path

    @classmethod
    def of(cls, scale: float) -> Place:
        """The place for a scale."""
        return cls(home() / f"load-{scale:g}")

    def data(self, name: str) -> Path:
        """The folder of generated files of one kind."""
        return self.folder / "data" / name

    @property
    def scratch(self) -> Path:
        """What contenders write; empty between two passes."""
        return self.folder / "scratch"

    @property
    def kept(self) -> Path:
        """What several passes of one run start from."""
        return self.folder / "kept"

    @property
    def logs(self) -> Path:
        """What contenders print."""
        return self.folder / "logs"

    @property
    def results(self) -> Path:
        """Where figures of a run go that is not published."""
        return self.folder / "results"
