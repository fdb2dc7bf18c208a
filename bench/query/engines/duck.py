"""DuckDB on tables of its own, with indexes on keys and ends; vectors by exact distance."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.query.engines import THREADS, Ask

INDEXES: Final = (
    ("Person", "key"),
    ("Company", "key"),
    ("Doc", "key"),
    ("Knows", "src"),
    ("Knows", "dst"),
    ("WorksAt", "src"),
    ("Wrote", "dst"),
)

QUERIES: Final = {
    "Q1": "SELECT name, age, city FROM Person WHERE key = $key",
    "Q2": "SELECT f.key, f.name, f.age, f.city FROM Knows k JOIN Person f ON f.key = k.dst "
    "WHERE k.src = $key",
    "Q3": "SELECT count(DISTINCT b.dst) FROM Knows a JOIN Knows b ON b.src = a.dst "
    "WHERE a.src = $key",
    # Frontier by frontier beats one join of three.
    "Q4": "WITH a AS (SELECT dst FROM Knows WHERE src = $key), "
    "b AS (SELECT DISTINCT k.dst FROM Knows k JOIN a ON k.src = a.dst) "
    "SELECT count(DISTINCT k.dst) FROM Knows k JOIN b ON k.src = b.dst",
    "Q5": "SELECT f.city, count(*), avg(f.age) FROM Person p JOIN Knows k ON k.src = p.key "
    "JOIN Person f ON f.key = k.dst WHERE p.age >= $age GROUP BY f.city",
    # The sum over the degree products; joining all paths takes seconds.
    "Q6": "SELECT sum(i.n * o.n)::BIGINT FROM "
    "(SELECT dst, count(*) AS n FROM Knows GROUP BY dst) i "
    "JOIN (SELECT src, count(*) AS n FROM Knows GROUP BY src) o ON i.dst = o.src",
    "Q6t": "SELECT count(*) FROM Knows a JOIN Knows b ON b.src = a.dst "
    "JOIN Knows c ON c.src = a.src AND c.dst = b.dst",
    "Q7": "WITH h1 AS (SELECT dst FROM Knows WHERE src = $key), "
    "h2 AS (SELECT DISTINCT k.dst FROM Knows k JOIN h1 ON k.src = h1.dst), "
    "h3 AS (SELECT DISTINCT k.dst FROM Knows k JOIN h2 ON k.src = h2.dst), "
    "h4 AS (SELECT DISTINCT k.dst FROM Knows k JOIN h3 ON k.src = h3.dst), "
    "near AS (FROM h1 UNION FROM h2 UNION FROM h3 UNION FROM h4) "
    "SELECT count(*) FROM near WHERE dst <> $key",
    "Q8": "SELECT count(*) FROM Person p WHERE NOT EXISTS "
    "(SELECT 1 FROM Knows k WHERE k.src = p.key)",
    "Q9": "WITH best AS (SELECT key, title, "
    "array_cosine_distance(embedding, $vector::FLOAT[64]) AS score FROM Doc "
    "WHERE topic = $topic ORDER BY score, key LIMIT 10) "
    "SELECT b.key, b.title, p.name, b.score FROM best b JOIN Wrote w ON w.dst = b.key "
    "JOIN Person p ON p.key = w.src ORDER BY b.score, b.key, p.key LIMIT 10",
}


class Duck:
    """DuckDB."""

    def __init__(self) -> None:
        self._connection: Any = None

    def load(self, data: Path, home: Path) -> None:
        """Read the files into tables."""
        connection = importlib.import_module("duckdb").connect(str(home / "graph.duckdb"))
        for name in ("Person", "Company", "Knows", "WorksAt", "Wrote"):
            connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{data / name}.parquet')")
        connection.execute(
            "CREATE TABLE Doc AS SELECT * REPLACE (embedding::FLOAT[64] AS embedding) "
            f"FROM read_parquet('{data / 'Doc'}.parquet')"
        )
        for table, column in INDEXES:
            connection.execute(f"CREATE INDEX {table}_{column} ON {table}({column})")
        connection.execute("CHECKPOINT")
        connection.close()

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Open for reading."""
        self._connection = importlib.import_module("duckdb").connect(
            str(home / "graph.duckdb"), read_only=True, config={"threads": THREADS}
        )
        return {name: self._asking(text) for name, text in QUERIES.items()}

    def _asking(self, text: str) -> Ask:
        statement: Any = None

        def ask(params: Mapping[str, Any]) -> Any:
            nonlocal statement
            if statement is None:
                (statement,) = self._connection.extract_statements(text)
            return self._connection.execute(statement, dict(params)).fetchall()

        return ask
