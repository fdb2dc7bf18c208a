"""lance-graph: Cypher over Arrow tables in memory, planned and run by DataFusion."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.query.engines import Ask

TABLES: Final = ("Person", "Company", "Knows", "WorksAt")

# Its Cypher has no parameters in filters, so keys stand in the text; no count of distinct values,
# so the rows of the answer are counted; no cycles and no negation.
QUERIES: Final = {
    "Q1": "MATCH (p:Person) WHERE p.key = '{key}' RETURN p.name, p.age, p.city",
    "Q2": "MATCH (p:Person)-[:Knows]->(f:Person) WHERE p.key = '{key}' "
    "RETURN f.key, f.name, f.age, f.city",
    "Q3": "MATCH (p:Person)-[:Knows]->(a:Person)-[:Knows]->(b:Person) WHERE p.key = '{key}' "
    "RETURN DISTINCT b.key",
    "Q4": "MATCH (p:Person)-[:Knows]->(a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person) "
    "WHERE p.key = '{key}' RETURN DISTINCT c.key",
    "Q5": "MATCH (p:Person)-[:Knows]->(f:Person) WHERE p.age >= {age} "
    "RETURN f.city, count(*) AS n, avg(f.age) AS age",
    "Q6": "MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person) RETURN count(*) AS n",
    "Q7": "MATCH (p:Person)-[:Knows*1..4]->(f:Person) WHERE p.key = '{key}' AND f.key <> '{key}' "
    "RETURN DISTINCT f.key",
}
COUNTED: Final = ("Q3", "Q4", "Q7")


class LanceGraph:
    """lance-graph, of the newest version that installs everywhere."""

    def load(self, data: Path, home: Path) -> None:
        """Keep the tables as Arrow files, which open at once."""
        feather = importlib.import_module("pyarrow.feather")
        parquet = importlib.import_module("pyarrow.parquet")
        for name in TABLES:
            table = parquet.read_table(data / f"{name}.parquet")
            feather.write_feather(table, home / f"{name}.arrow", compression="uncompressed")

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Map the tables."""
        module = importlib.import_module("lance_graph")
        feather = importlib.import_module("pyarrow.feather")
        tables = {name: feather.read_table(home / f"{name}.arrow") for name in TABLES}
        builder = module.GraphConfig.builder()
        for name in ("Person", "Company"):
            builder = builder.with_node_label(name, "key")
        for name in ("Knows", "WorksAt"):
            builder = builder.with_relationship(name, "src", "dst")
        config = builder.build()
        return {
            name: _asking(module, config, text, tables, name in COUNTED)
            for name, text in QUERIES.items()
        }


def _asking(module: Any, config: Any, text: str, tables: Mapping[str, Any], counted: bool) -> Ask:
    def ask(params: Mapping[str, Any]) -> Any:
        query = module.CypherQuery(text.format(**params)).with_config(config)
        found = query.execute(tables)
        return [(found.num_rows,)] if counted else found.to_pylist()

    return ask
