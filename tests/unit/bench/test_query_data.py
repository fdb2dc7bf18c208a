"""The graph that is measured, and the right answers to its searches."""

import importlib
import math
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.query.engines import ENGINES, cypher, duck, lance_graph
from bench.query.generate import SEED, Size, tables
from bench.query.oracle import Oracle
from bench.query.parameters import parameters
from bench.query.questions import QUESTIONS, SCHEMA
from omnigraph.lang import compile_queries, compile_schema

SMALL = Size(persons=300, knows=3_000, companies=20, docs=200)


@pytest.fixture(scope="module")
def graph() -> dict[str, pa.Table]:
    return dict(tables(SMALL, SEED))


@pytest.fixture(scope="module")
def data(graph: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, table in graph.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


def test_a_seed_gives_one_graph(graph: dict[str, pa.Table]) -> None:
    again = tables(SMALL, SEED)
    assert all(again[name].equals(table) for name, table in graph.items())
    assert not tables(SMALL, SEED + 1)["Knows"].equals(graph["Knows"])


def test_edges_have_ends_and_are_different(graph: dict[str, pa.Table]) -> None:
    keys = {name: set(graph[name]["key"].to_pylist()) for name in ("Person", "Company", "Doc")}
    assert {name: len(found) for name, found in keys.items()} == {
        "Person": SMALL.persons,
        "Company": SMALL.companies,
        "Doc": SMALL.docs,
    }
    for name, target in (("Knows", "Person"), ("WorksAt", "Company"), ("Wrote", "Doc")):
        pairs = _pairs(graph[name])
        assert len(set(pairs)) == len(pairs)
        assert {src for src, _ in pairs} <= keys["Person"]
        assert {dst for _, dst in pairs} <= keys[target]
    assert all(src != dst for src, dst in _pairs(graph["Knows"]))
    assert len(_pairs(graph["Knows"])) == SMALL.knows
    # A document without author would leave a search by the hop.
    assert {dst for _, dst in _pairs(graph["Wrote"])} == keys["Doc"]


def test_words_are_what_every_analyser_leaves_alone(graph: dict[str, pa.Table]) -> None:
    words = {word for body in graph["Doc"]["body"].to_pylist() for word in body.split()}
    # The oracle counts words as parts of the text.
    assert {len(word) for word in words} == {6}
    stemmer = importlib.import_module("snowballstemmer").stemmer("english")
    assert [word for word in words if stemmer.stemWord(word) != word] == []


def test_questions_compile_and_engines_know_them() -> None:
    catalog = compile_schema(SCHEMA)
    for question in QUESTIONS:
        compile_queries(question.text, catalog)
    names = {question.name for question in QUESTIONS}
    for queries in (cypher.QUERIES, duck.QUERIES, lance_graph.QUERIES):
        assert set(queries) <= names
    assert sum(not info.peer for info in ENGINES.values()) == 1


def test_the_oracle_agrees_with_the_plain_formulas(graph: dict[str, pa.Table], data: Path) -> None:
    oracle, docs = Oracle(data), graph["Doc"].to_pylist()
    params = parameters(data)
    for given in params["Q9"][:3]:
        expected = sorted(
            (_cosine(doc["embedding"], given["vector"]), doc["key"])
            for doc in docs
            if doc["topic"] == given["topic"]
        )
        found = oracle.best("Q9", given)
        assert [key for key, _ in found] == [key for _, key in expected]
        assert [score for _, score in found] == pytest.approx([score for score, _ in expected])
    for given in params["Q10"][:3]:
        scores = _bm25(docs, given["words"])
        expected = sorted((-score, key) for key, score in scores.items())
        found = oracle.best("Q10", given)
        assert [key for key, _ in found] == [key for _, key in expected]
        assert [-score for _, score in found] == pytest.approx([score for score, _ in expected])


def _pairs(edges: pa.Table) -> list[tuple[str, str]]:
    return list(zip(edges["src"].to_pylist(), edges["dst"].to_pylist(), strict=True))


def _cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return 1 - dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def _bm25(docs: list[dict[str, str]], words: str) -> dict[str, float]:
    texts = {doc["key"]: Counter(doc["body"].split()) for doc in docs}
    mean = sum(counts.total() for counts in texts.values()) / len(texts)
    scores: dict[str, float] = defaultdict(float)
    for word in set(words.split()):
        having = sum(word in counts for counts in texts.values())
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for key, counts in texts.items():
            if tf := counts[word]:
                scores[key] += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * counts.total() / mean))
    return dict(scores)
