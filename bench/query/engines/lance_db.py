"""LanceDB: vector, text and hybrid search on tables of its own; the hop by indexed lookups."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.query.engines import Ask

TOP: Final = 10
# Where more of it changes the answers hardly any more.
PROBES: Final = 20
REFINE: Final = 10
FUSED: Final = 100  # how many of each ranking are fused
RRF_K: Final = 60


class LanceDb:
    """LanceDB."""

    def __init__(self) -> None:
        self._docs: Any = None
        self._wrote: Any = None
        self._persons: Any = None

    def load(self, data: Path, home: Path) -> None:
        """Write the tables and build the indexes."""
        parquet = importlib.import_module("pyarrow.parquet")
        database = importlib.import_module("lancedb").connect(str(home / "db"))
        for name in ("Person", "Doc", "Wrote"):
            database.create_table(name, parquet.read_table(data / f"{name}.parquet"))
        docs = database.open_table("Doc")
        docs.create_index(
            metric="cosine",
            vector_column_name="embedding",
            index_type="IVF_PQ",
            num_partitions=max(1, round(math.sqrt(docs.count_rows()))),
            num_sub_vectors=16,
        )
        docs.create_fts_index("body", with_position=False)
        docs.create_scalar_index("topic", index_type="BITMAP")
        database.open_table("Wrote").create_scalar_index("dst")
        database.open_table("Person").create_scalar_index("key")
        for name in ("Person", "Doc", "Wrote"):
            database.open_table(name).optimize()

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Open the tables."""
        database = importlib.import_module("lancedb").connect(str(home / "db"))
        self._docs = database.open_table("Doc")
        self._wrote = database.open_table("Wrote")
        self._persons = database.open_table("Person")
        return {"Q9": self._vector, "Q10": self._text, "Q11": self._hybrid}

    def _vector(self, params: Mapping[str, Any]) -> Any:
        found = self._near(params, TOP).select(["key", "title", "_distance"]).to_list()
        best = [(row["key"], row["title"], row["_distance"]) for row in found]
        return self._authors(best)

    def _text(self, params: Mapping[str, Any]) -> Any:
        found = (
            self._docs.search(params["words"], query_type="fts", fts_columns="body")
            .limit(TOP)
            .select(["key", "title", "_score"])
            .to_list()
        )
        best = [(row["key"], row["title"], row["_score"]) for row in found]
        return self._authors(best)

    def _hybrid(self, params: Mapping[str, Any]) -> Any:
        """Fuse two searches by rank.

        Its own hybrid search takes as long and fuses only as many of each as are asked for.
        """
        near = self._near(params, FUSED).select(["key", "title", "_distance"]).to_list()
        said = (
            self._docs.search(params["words"], query_type="fts", fts_columns="body")
            .where(f"topic = '{params['topic']}'", prefilter=True)
            .limit(FUSED)
            .select(["key", "title", "_score"])
            .to_list()
        )
        scores: dict[str, float] = {}
        titles: dict[str, str] = {}
        for ranking in (near, said):
            for rank, row in enumerate(ranking, 1):
                key = row["key"]
                titles[key] = row["title"]
                scores[key] = scores.get(key, 0.0) + 1 / (RRF_K + rank)
        order = sorted(scores, key=lambda key: (-scores[key], key))[:TOP]
        return self._authors([(key, titles[key], scores[key]) for key in order])

    def _near(self, params: Mapping[str, Any], count: int) -> Any:
        return (
            self._docs.search(params["vector"], vector_column_name="embedding")
            .distance_type("cosine")
            .where(f"topic = '{params['topic']}'", prefilter=True)
            .nprobes(PROBES)
            .refine_factor(REFINE)
            .limit(count)
        )

    def _authors(self, docs: list[tuple[str, str, float]]) -> Any:
        """One row per document and author, the best ten of them."""
        wrote = self._wrote.search().where(_among("dst", [key for key, _, _ in docs]))
        pairs = wrote.select(["src", "dst"]).limit(None).to_list()
        writers = sorted({pair["src"] for pair in pairs})
        people = self._persons.search().where(_among("key", writers)).limit(None)
        names = {row["key"]: row["name"] for row in people.select(["key", "name"]).to_list()}
        authors: dict[str, list[str]] = {}
        for pair in pairs:
            authors.setdefault(pair["dst"], []).append(pair["src"])
        rows = [
            (key, title, names[author], score)
            for key, title, score in docs
            for author in sorted(authors.get(key, ()))
        ]
        return rows[:TOP]


def _among(column: str, keys: list[str]) -> str:
    return f"{column} IN ({', '.join(repr(key) for key in keys)})"
