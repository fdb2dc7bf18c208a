"""Search: text predicates, rankings, vectors, and filters before all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.embed.local import MockEmbedder
from omnigraph.embed.provider import Purpose
from tests.behaviour import ask, change, match

SCHEMA = """
node Doc {
  slug: String @key
  title: String
  body: String?
  year: I32?
  vec: Vector(2)?
  l2: Vector(2)? @metric(l2)
  dot: Vector(2)? @metric(dot)
  @index(title)
}
node Author { name: String @key }
edge Wrote: Author -> Doc
"""

DOCS = """
  insert Doc { slug: "ml", title: "Introduction to Machine Learning", year: 2020,
    body: "A gentle introduction to machine learning and graphs.",
    vec: [1.0, 0.0], l2: [0.0, 0.0], dot: [1.0, 1.0] }
  insert Doc { slug: "db", title: "Graph databases", year: 2021,
    body: "Graph storage, graph queries and a running example.",
    vec: [2.0, 2.0], l2: [3.0, 4.0], dot: [2.0, 2.0] }
  insert Doc { slug: "cafe", title: "Le Café", year: 2020,
    body: "Crème brûlée; the learning of cooking machines.",
    vec: [0.0, 1.0], l2: [1.0, 0.0], dot: [-1.0, 0.0] }
  insert Doc { slug: "empty", title: "", body: "", vec: [0.0, 0.0] }
  insert Doc { slug: "none", title: "Nothing" }
  insert Author { name: "Ada" } insert Author { name: "Bob" }
  insert Wrote { from: "Ada", to: "ml" } insert Wrote { from: "Ada", to: "db" }
  insert Wrote { from: "Bob", to: "ml" } insert Wrote { from: "Bob", to: "ml" }
"""


@pytest.fixture(scope="module", params=["plain", "indexed", "partly indexed"])
def docs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[og.Graph]:
    """The same graph without an index, with one, and with one that knows half of it."""
    graph = og.init(tmp_path_factory.mktemp("docs") / "g.omni", SCHEMA, embedder=MockEmbedder())
    statements = DOCS
    if request.param == "partly indexed":
        middle = DOCS.index('  insert Doc { slug: "cafe"')
        change(graph, DOCS[:middle])
        graph.ensure_indices()
        statements = DOCS[middle:]
    change(graph, statements)
    if request.param == "indexed":
        graph.ensure_indices()
    with graph:
        yield graph


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ('search($d.body, "graph")', ["db", "ml"]),
        ('search($d.body, "GRAPHS")', ["db", "ml"]),
        ('search($d.body, "cooking queries")', ["cafe", "db"]),
        ('search($d.body, "run")', ["db"]),
        ('search($d.body, "creme")', ["cafe"]),
        ('search($d.title, "cafe")', ["cafe"]),
        ('search($d.body, "the")', ["cafe"]),
        ('search($d.body, "zebra")', []),
        ('search($d.body, "")', []),
        ('search($d.body, "... !")', []),
        ('not search($d.body, "graph")', ["cafe", "empty"]),
        ('match_text($d.body, "machine learning")', ["ml"]),
        ('match_text($d.body, "learning machine")', []),
        ('match_text($d.body, "graph queries and")', ["db"]),
        ('match_text($d.body, "graph")', ["db", "ml"]),
        ('fuzzy($d.title, "Introductio")', ["ml"]),
        ('fuzzy($d.title, "introduktion", 1)', ["ml"]),
        ('fuzzy($d.title, "introduktion", 0)', []),
        ('fuzzy($d.title, "grpah", 2)', ["db"]),
        ('fuzzy($d.title, "grpah", 1)', []),
        ('search($d.body, "graph") search($d.body, "gentle")', ["ml"]),
        ('search($d.body, "graph") search($d.title, "database")', ["db"]),
        ('search($d.body, "graph") or search($d.title, "cafe")', ["cafe", "db", "ml"]),
        ('search($d.body, "graph") $d.year = 2020', ["ml"]),
    ],
)
def test_text_predicates(docs: og.Graph, predicate: str, found: list[str]) -> None:
    assert match(docs, f"$d: Doc {predicate}", "$d.slug") == found


def test_the_number_of_edits_may_be_a_parameter(docs: og.Graph) -> None:
    text = 'match { $d: Doc fuzzy($d.title, "grpah", $n) } return { $d.slug }'
    assert ask(docs, text, types="$n: I32", n=2) == [("db",)]
    assert ask(docs, text, types="$n: I32", n=1) == []
    for bad in (-1, 3):
        with pytest.raises(og.errors.InvalidInput):
            ask(docs, text, types="$n: I32", n=bad)


def test_relevance(docs: og.Graph) -> None:
    ranked = match(docs, "$d: Doc", '$d.slug, bm25($d.body, "graph learning") as s', "order { s }")
    slugs = [slug for slug, _ in ranked]
    scores = [score for _, score in ranked]
    # `learn` is as common as `graph`; two of one kind count less than one of each.
    assert slugs == ["ml", "db", "cafe", "empty", "none"]
    assert scores[3:] == [None, None]
    assert scores[0] > scores[1] > scores[2] > 0
    # The worst first, as a number like others: nulls come first then.
    up = match(docs, "$d: Doc", '$d.slug, bm25($d.body, "graph") as s', "order { s asc }")
    assert [slug for slug, _ in up] == ["cafe", "empty", "none", "ml", "db"]


def test_relevance_does_not_depend_on_filters(docs: og.Graph) -> None:
    ranking = 'bm25($d.body, "graph") as s'
    everything = dict(match(docs, "$d: Doc", f"$d.slug, {ranking}", "order { s }"))
    some = match(docs, "$d: Doc $d.year = 2020", f"$d.slug, {ranking}", "order { s }")
    assert some == [("ml", everything["ml"]), ("cafe", None)]


@pytest.mark.parametrize(
    ("column", "query", "found"),
    [
        ("vec", [3.0, 0.0], [("ml", 0.0), ("db", 1 - 0.5**0.5), ("cafe", 1.0)]),
        ("l2", [3.0, 0.0], [("cafe", 4.0), ("ml", 9.0), ("db", 16.0)]),
        ("dot", [1.0, 0.0], [("db", -1.0), ("ml", 0.0), ("cafe", 2.0)]),
    ],
)
def test_distances(
    docs: og.Graph, column: str, query: list[float], found: list[tuple[str, float]]
) -> None:
    text = (
        f"match {{ $d: Doc }} return {{ $d.slug, nearest($d.{column}, $q) as s }} "
        "order { s } limit $n"
    )
    for limit in (1, 2, 3):
        rows = ask(docs, text, types="$q: Vector(2), $n: I32", q=query, n=limit)
        assert rows == [(slug, pytest.approx(value)) for slug, value in found[:limit]]
    rest = ask(docs, text, types="$q: Vector(2), $n: I32", q=query, n=9)[3:]
    assert rest == [("empty", None), ("none", None)]


def test_filters_come_before_the_ranking(docs: og.Graph) -> None:
    tail = "order { nearest($d.vec, [0.0, 1.0]) } limit 1"
    assert match(docs, "$d: Doc", "$d.slug", tail) == ["cafe"]
    assert match(docs, "$d: Doc { year: 2021 }", "$d.slug", tail) == ["db"]
    assert match(docs, "$d: Doc $d.year = 2021", "$d.slug", tail) == ["db"]
    assert match(docs, '$d: Doc search($d.body, "gentle")', "$d.slug", tail) == ["ml"]
    assert match(docs, "$d: Doc $a wrote $d", "$a.name, $d.slug", tail) == [("Ada", "db")]


def test_a_ranking_survives_what_hangs_on_it(docs: og.Graph) -> None:
    tail = 'order { bm25($d.body, "graph") } limit 3'
    # Two edges are one row, unless they are named.
    assert match(docs, "$a wrote $d", "$d.slug, $a.name", tail) == [
        ("db", "Ada"),
        ("ml", "Ada"),
        ("ml", "Bob"),
    ]
    assert match(docs, "$a $w: wrote $d", "$d.slug, $a.name", tail.replace("3", "9")) == [
        ("db", "Ada"),
        ("ml", "Ada"),
        ("ml", "Bob"),
        ("ml", "Bob"),
    ]


def test_fusion(docs: og.Graph) -> None:
    def fused(first: str, second: str, pattern: str = "$d: Doc", k: str = "") -> list[Any]:
        ranking = f"rrf({first}, {second}{k})"
        return match(docs, pattern, f"$d.slug, {ranking} as s", "order { s } limit 9")

    text, vector = 'bm25($d.body, "graph")', "nearest($d.vec, [1.0, 0.0])"
    # By text: db, ml. By distance: ml, db, cafe.
    both = [("db", 1 / 61 + 1 / 62), ("ml", 1 / 61 + 1 / 62), ("cafe", 1 / 63)]
    assert fused(text, vector)[:3] == [(slug, pytest.approx(score)) for slug, score in both]
    small = [("db", 1 / 2 + 1 / 3), ("ml", 1 / 2 + 1 / 3), ("cafe", 1 / 4)]
    assert fused(text, vector, k=", 1")[:3] == [(s, pytest.approx(v)) for s, v in small]
    # Only candidates have ranks, and each has one however many rows it is in.
    joined = fused(text, vector, "$a wrote $d")
    assert joined == [
        ("db", pytest.approx(1 / 61 + 1 / 62)),
        ("ml", pytest.approx(1 / 61 + 1 / 62)),
        ("ml", pytest.approx(1 / 61 + 1 / 62)),
    ]
    twice = fused(vector, "nearest($d.l2, [0.0, 0.0])")
    assert [slug for slug, _ in twice[:3]] == ["ml", "cafe", "db"]
    words = fused(text, 'bm25($d.title, "introduction")')
    assert [slug for slug, _ in words[:2]] == ["ml", "db"]


def test_what_is_written_is_found_at_once(docs: og.Graph, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    change(graph, DOCS)
    graph.ensure_indices()
    change(graph, 'insert Doc { slug: "new", title: "zebra", vec: [-1.0, 0.0] }')
    change(graph, 'update Doc set { title: "zebras" } where slug = "none"')
    change(graph, 'delete Doc where slug = "ml"')
    assert match(graph, '$d: Doc search($d.title, "zebra")', "$d.slug") == ["new", "none"]
    tail = "order { nearest($d.vec, [-1.0, 0.0]) } limit 1"
    assert match(graph, "$d: Doc", "$d.slug", tail) == ["new"]
    assert match(graph, "$d: Doc", "$d.slug", tail.replace("[-1.0", "[1.0")) == ["db"]
    graph.close()


# -- embeddings ------------------------------------------------------------------------------

EMBEDDED = """
node Note {
  slug: String @key
  text: String?
  other: I32?
  vec: Vector(4)? @embed(text, model="small")
}
"""
NEAREST = "match { $n: Note } return { $n.slug } order { nearest($n.vec, $q) } limit 1"


def test_a_text_is_embedded_by_the_model_of_the_schema(tmp_path: Path) -> None:
    embedder = MockEmbedder("small")
    graph = og.init(tmp_path / "g.omni", EMBEDDED, embedder=embedder)
    change(
        graph,
        'insert Note { slug: "a", text: "alpha" } insert Note { slug: "b", text: "beta" } '
        'insert Note { slug: "c" } insert Note { slug: "d", text: "x", vec: [1.0, 0.0, 0.0, 0.0] }',
    )
    (beta,) = embedder.embed(["beta"], 4, Purpose.QUERY)
    assert match(graph, '$n: Note { slug: "b" }', "$n.vec") == [pytest.approx(list(beta))]
    assert match(graph, '$n: Note { slug: "c" }', "$n.vec") == [None]
    assert match(graph, '$n: Note { slug: "d" }', "$n.vec") == [[1.0, 0.0, 0.0, 0.0]]
    assert ask(graph, NEAREST, types="$q: String", q="beta") == [("b",)]
    assert ask(graph, NEAREST.replace("$q", '"alpha"')) == [("a",)]
    assert ask(graph, NEAREST, types="$q: Vector(4)", q=list(beta)) == [("b",)]
    # A new text gives a new vector, another property does not.
    change(graph, 'update Note set { text: "gamma" } where slug = "a"')
    assert ask(graph, NEAREST, types="$q: String", q="gamma") == [("a",)]
    change(graph, 'update Note set { other: 1, text: null } where slug = "b"')
    assert match(graph, '$n: Note { slug: "b" }', "$n.vec") == [None]
    graph.close()


def test_without_a_provider_only_texts_fail(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", EMBEDDED)
    change(
        graph,
        'insert Note { slug: "a", vec: [1.0, 0.0, 0.0, 0.0] } '
        'insert Note { slug: "c", vec: [0.0, 1.0, 0.0, 0.0] }',
    )
    assert ask(graph, NEAREST, types="$q: Vector(4)", q=[1, 0, 0, 0]) == [("a",)]
    with pytest.raises(og.errors.InvalidInput):
        ask(graph, NEAREST, types="$q: String", q="alpha")
    done = graph.mutate('query q() { insert Note { slug: "b", text: "beta" } }')
    assert match(graph, '$n: Note { slug: "b" }', "$n.vec") == [None]
    (warning,) = done.warnings
    assert (warning.code, warning.count) == ("embedding_provider_missing", 1)
    assert "Note.vec" in warning.message
    assert "OMNIGRAPH_EMBED_PROVIDER" in warning.message
    assert done.vectors_missing == 1
    graph.close()


def test_another_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "g.omni", EMBEDDED, embedder=MockEmbedder("large"))
    change(
        graph,
        'insert Note { slug: "a", vec: [1.0, 0.0, 0.0, 0.0] } '
        'insert Note { slug: "c", vec: [0.0, 1.0, 0.0, 0.0] }',
    )
    with pytest.raises(og.errors.InvalidInput, match=r"small.*large|large.*small"):
        ask(graph, NEAREST, types="$q: String", q="alpha")
    with pytest.raises(og.errors.InvalidInput):
        change(graph, 'insert Note { slug: "b", text: "beta" }')
    graph.close()
    # What is given wins over what the environment says.
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "large")
    with og.open(tmp_path / "g.omni", embedder=MockEmbedder("small")) as given:
        change(given, 'insert Note { slug: "b", text: "beta" }')
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "small")
    with og.open(tmp_path / "g.omni") as named:
        assert ask(named, NEAREST, types="$q: String", q="beta") == [("b",)]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_mistakes_are_told_whatever_the_graph_holds(tmp_path: Path, size: int) -> None:
    graph = og.init(tmp_path / "g.omni", EMBEDDED, embedder=MockEmbedder("large"))
    for number in range(size):
        change(graph, f'insert Note {{ slug: "{number}", vec: [1.0, 0.0, 0.0, 0.0] }}')
    fuzzy = 'match { $n: Note fuzzy($n.text, "x", $e) } return { $n.slug }'
    for edits in (-1, 3):
        with pytest.raises(og.errors.InvalidInput):
            ask(graph, fuzzy, types="$e: I32", e=edits)
    fused = 'rrf(bm25($n.text, "x"), nearest($n.vec, [1.0, 0.0, 0.0, 0.0]), $k)'
    text = f"match {{ $n: Note }} return {{ $n.slug }} order {{ {fused} }} limit 1"
    with pytest.raises(og.errors.InvalidInput):
        ask(graph, text, types="$k: I64", k=0)
    with pytest.raises(og.errors.InvalidInput):
        ask(graph, NEAREST, types="$q: String", q="alpha")
    graph.close()
