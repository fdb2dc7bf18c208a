"""pandas: what a notebook would do with the files. No rules, no graph, a table per file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lance
import pandas as pd

from bench.load.contender import Pass
from bench.load.schema import EDGES


def parquet(*, source: str, types: Sequence[str], target: str) -> Pass:
    """Parquet files as frames into one Lance table each."""

    def run() -> None:
        for name in types:
            frame = pd.read_parquet(Path(source) / f"{name}.parquet")
            if name in EDGES:
                frame = frame.rename(columns={"from": "src", "to": "dst"})
            lance.write_dataset(frame, str(Path(target) / name))

    def count() -> dict[str, int]:
        return {name: lance.dataset(str(Path(target) / name)).count_rows() for name in types}

    return Pass(run=run, count=count)
