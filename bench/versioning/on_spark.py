"""A merge on Spark over Parquet: `python -m bench.versioning.on_spark FOLDER ROWS COUNT...`.

What a user without a table format does: join the table with the changes, write it anew. The same
rows as everywhere else in this group.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.algorithms.on_spark import processor_seconds
from bench.versioning.graphs import Delta, items

_ROUNDS = 2


def main() -> None:
    """Print one JSON object: seconds of processor and clock by count of changes, the best round."""
    folder, rows, *counts = sys.argv[1:]
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(items(np.arange(int(rows))), place / "target.parquet")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    found: dict[str, Any] = {}
    for count in map(int, counts):
        delta = Delta.of(int(rows), count, 1)
        pq.write_table(delta.written, place / "written.parquet")
        pq.write_table(pa.table({"name": list(delta.deleted)}), place / "deleted.parquet")
        taken = [_timed(session, place) for _ in range(_ROUNDS)]
        found[str(count)] = dict(
            zip(("cpu", "wall"), map(min, zip(*taken, strict=True)), strict=True)
        )
    session.stop()
    print(json.dumps({"spark": session.version, "seconds": found}))


def _timed(session: Any, place: Path) -> tuple[float, float]:
    begin, clock = processor_seconds(), perf_counter()
    target = session.read.parquet(str(place / "target.parquet"))
    written = session.read.parquet(str(place / "written.parquet"))
    deleted = session.read.parquet(str(place / "deleted.parquet"))
    touched = written.select("name").union(deleted)
    merged = target.join(touched, "name", "left_anti").unionByName(written)
    merged.write.mode("overwrite").parquet(str(place / "merged.parquet"))
    return processor_seconds() - begin, perf_counter() - clock


if __name__ == "__main__":
    main()
