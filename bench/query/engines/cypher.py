"""Kuzu and its successor ladybug: Cypher, prepared statements."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.query.engines import MEMORY_BYTES, THREADS, Ask

SCHEMA: Final = (
    "CREATE NODE TABLE Person(key STRING, name STRING, age INT32, city STRING, PRIMARY KEY(key))",
    "CREATE NODE TABLE Company(key STRING, name STRING, sector STRING, PRIMARY KEY(key))",
    "CREATE REL TABLE Knows(FROM Person TO Person, since DATE)",
    "CREATE REL TABLE WorksAt(FROM Person TO Company, since DATE)",
)

# No search: the vector index of kuzu takes ten minutes to build and finds other documents by text;
# ladybug loads both as extensions from the network.
QUERIES: Final = {
    "Q1": "MATCH (p:Person {key: $key}) RETURN p.name, p.age, p.city",
    "Q2": "MATCH (p:Person {key: $key})-[:Knows]->(f:Person) RETURN f.key, f.name, f.age, f.city",
    "Q3": "MATCH (p:Person {key: $key})-[:Knows]->(:Person)-[:Knows]->(b:Person) "
    "RETURN count(DISTINCT b)",
    "Q4": "MATCH (p:Person {key: $key})-[:Knows]->(:Person)-[:Knows]->(:Person)-[:Knows]->"
    "(c:Person) RETURN count(DISTINCT c)",
    "Q5": "MATCH (f:Person)<-[:Knows]-(p:Person) WHERE p.age >= $age "
    "RETURN f.city, count(p), avg(f.age)",
    "Q6": "MATCH (:Person)-[:Knows]->(:Person)-[:Knows]->(:Person) RETURN count(*)",
    "Q6t": "MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person), (a)-[:Knows]->(c) "
    "RETURN count(*)",
    "Q7": "MATCH (p:Person {key: $key})-[:Knows* SHORTEST 1..4]->(f:Person) RETURN count(*)",
    "Q8": "MATCH (p:Person) WHERE NOT EXISTS { MATCH (p)-[:Knows]->(:Person) } RETURN count(*)",
}


class _Cypher:
    package = ""

    def __init__(self) -> None:
        self._connection: Any = None

    def load(self, data: Path, home: Path) -> None:
        """Copy the files in."""
        module = importlib.import_module(self.package)
        database = module.Database(str(home / "graph"), buffer_pool_size=MEMORY_BYTES)
        connection = module.Connection(database, num_threads=THREADS)
        for statement in SCHEMA:
            connection.execute(statement)
        for name in ("Person", "Company", "Knows", "WorksAt"):
            connection.execute(f"COPY {name} FROM '{data / name}.parquet'")
        connection.close()
        database.close()

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Open for reading."""
        module = importlib.import_module(self.package)
        database = module.Database(
            str(home / "graph"),
            buffer_pool_size=MEMORY_BYTES,
            max_num_threads=THREADS,
            read_only=True,
        )
        self._connection = module.Connection(database, num_threads=THREADS)
        return {name: self._asking(text) for name, text in self.queries().items()}

    def queries(self) -> Mapping[str, str]:
        """The texts by question."""
        return QUERIES

    def _asking(self, text: str) -> Ask:
        prepared: Any = None

        def ask(params: Mapping[str, Any]) -> Any:
            nonlocal prepared
            if prepared is None:
                prepared = self._connection.prepare(text)
            return self._connection.execute(prepared, dict(params)).get_all()

        return ask


class Kuzu(_Cypher):
    """Kuzu, as it was last released."""

    package = "kuzu"


class Ladybug(_Cypher):
    """Ladybug, which goes on from there."""

    package = "ladybug"
