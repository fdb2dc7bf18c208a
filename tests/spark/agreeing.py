"""A few queries of every kind, asked in process and on a session of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.lang import compile_schema
from omnigraph.testing.schemas import SOCIAL
from omnigraph.testing.strategies_graph import sample_graph
from tests.modelled import make, same, write

QUERIES = (
    "match { $p: Person $p.age > 1 } return { $p }",
    "match { $p: Person $p knows {1,4} $f } return { $p.name, count($f) as n, avg($f.rating) }",
    "match { $p: Person $p knows {2,9} $f } return { $p.name, $f.name }",
    "match { $a: Person optional { $a knows $b } not { $a worksAt $_ } } return { $a.id, $b.tags }",
    'match { $d: Doc } return { $d.slug } order { bm25($d.body, "the graph of words") } limit 3',
)


def agree(folder: Path, session: Any) -> None:
    """Fail unless a session gives the answers of the process."""
    graph = make(folder, SOCIAL)
    write(graph, sample_graph(compile_schema(SOCIAL)))
    for query in QUERIES:
        text = f"query q() {{ {query} }}"
        here = graph.query(text, engine="inprocess")
        there = graph.query(text, engine="spark", spark=session)
        assert there.to_spark().columns == list(here.columns)
        assert same(there.to_pylist(), here.to_pylist()), text
        assert there.to_arrow().schema == here.to_arrow().schema, text
    graph.close()
