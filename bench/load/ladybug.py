"""ladybug: its bulk load, COPY, of the same Parquet files. Runs where the peers are installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.load.contender import THREADS, Pass
from bench.load.schema import DIM, EDGES

MEMORY_BYTES: Final = 4 << 30
TABLES: Final = {
    "Person": "CREATE NODE TABLE Person(key STRING, name STRING, age INT32, score DOUBLE, "
    "active BOOL, since DATE, city STRING, bio STRING, PRIMARY KEY(key))",
    "Company": "CREATE NODE TABLE Company(key STRING, name STRING, sector STRING, founded INT32, "
    "PRIMARY KEY(key))",
    "Knows": "CREATE REL TABLE Knows(FROM Person TO Person, since DATE, weight DOUBLE)",
    "WorksAt": "CREATE REL TABLE WorksAt(FROM Person TO Company, since DATE, role STRING)",
    "Doc": f"CREATE NODE TABLE Doc(key STRING, title STRING, embedding FLOAT[{DIM}], "
    "PRIMARY KEY(key))",
}


def parquet(*, source: str, types: Sequence[str], target: str) -> Pass:
    """Parquet files into a database, closed in the end so that everything is on disk."""
    module: Any = importlib.import_module("ladybug")
    Path(target).mkdir(parents=True)
    place = str(Path(target) / "graph")

    def opened() -> tuple[Any, Any]:
        database = module.Database(place, buffer_pool_size=MEMORY_BYTES, max_num_threads=THREADS)
        return database, module.Connection(database, num_threads=THREADS)

    def run() -> None:
        database, connection = opened()
        for name in types:
            connection.execute(TABLES[name])
        for name in types:
            connection.execute(f"COPY {name} FROM '{source}/{name}.parquet'")
        connection.close()
        database.close()

    def count() -> dict[str, int]:
        database, connection = opened()
        found = {}
        for name in types:
            pattern = f"()-[r:{name}]->()" if name in EDGES else f"(r:{name})"
            rows = connection.execute(f"MATCH {pattern} RETURN count(*)").get_all()
            found[name] = int(rows[0][0])
        connection.close()
        database.close()
        return found

    return Pass(run=run, count=count)
