"""Vectors and their texts in loads: a text that is written leaves the vector that belongs to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Code, ConstraintViolated, InvalidInput, Unavailable
from omnigraph.types import LoadMode
from tests.embeddings import EmbeddingServer, embedding_server, vector_of

SCHEMA = """
node Doc {
    slug: String @key
    page: I32?
    scan: Blob?
    text: String?
    vec: Vector(4)? @embed(text)
}
node Note { text: String @default("none")  vec: Vector(4)? @embed(text) }
node Strict { slug: String @key  size: I32?  text: String?  vec: Vector(4) @embed(text) }
"""
GIVEN = [1.0, 2.0, 3.0, 4.0]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


@pytest.fixture
def graph(tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    use(server, monkeypatch)
    return og.init(tmp_path / "g.omni", SCHEMA)


def use(server: EmbeddingServer, patch: pytest.MonkeyPatch) -> None:
    for name, value in server.variables.items():
        patch.setenv(name, value)


def forget(server: EmbeddingServer, patch: pytest.MonkeyPatch) -> None:
    for name in server.variables:
        patch.delenv(name)


def reopened(graph: og.Graph) -> og.Graph:
    uri = graph.uri
    graph.close()
    return og.open(uri)


def vectors(graph: og.Graph, kind: str = "Doc") -> dict[str, tuple[str | None, Any]]:
    shown = "return { $d.slug as s, $d.text as t, $d.vec as v }"
    query = f"query q() {{ match {{ $d: {kind} }} {shown} }}"
    return {row["s"]: (row["t"], row["v"]) for row in graph.query(query)}


def computed(text: str) -> tuple[str, Any]:
    return text, pytest.approx(vector_of(text, 4))


def doc(slug: str, **data: Any) -> dict[str, Any]:
    return {"slug": slug, **data}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_computes_the_vectors_of_new_texts(
    graph: og.Graph, server: EmbeddingServer, mode: LoadMode
) -> None:
    rows = [doc("a", text="one"), doc("b", text="two"), doc("c", text="one"), doc("d"), doc("e")]
    rows[4] |= {"text": "given", "vec": GIVEN}
    done = graph.load({"Doc": rows}, mode=mode)
    assert vectors(graph) == {
        "a": computed("one"),
        "b": computed("two"),
        "c": computed("one"),
        "d": (None, None),
        "e": ("given", GIVEN),
    }
    assert sorted(server.texts) == ["one", "two"]
    assert (done.warnings, done.vectors_missing) == ((), 0)


def test_a_merge_that_changes_the_text_changes_the_vector(
    graph: og.Graph, server: EmbeddingServer
) -> None:
    graph.load({"Doc": [doc(slug, text=f"text of {slug}") for slug in "abcdef"]})
    server.requests.clear()
    lines = [
        doc("a", text="new a"),
        doc("b", text="text of b"),
        doc("c", page=1),
        doc("d", text=None),
        doc("e", text="new e", vec=GIVEN),
        doc("f", vec=GIVEN),
        doc("g", text="text of g"),
    ]
    done = graph.load(ndjson(graph, lines), mode="merge")
    assert vectors(graph) == {
        "a": computed("new a"),
        "b": computed("text of b"),
        "c": computed("text of c"),
        "d": (None, None),
        "e": ("new e", GIVEN),
        "f": ("text of f", GIVEN),
        "g": computed("text of g"),
    }
    assert sorted(server.texts) == ["new a", "text of g"]
    assert done.vectors_missing == 0


def ndjson(graph: og.Graph, rows: list[dict[str, Any]], kind: str = "Doc") -> str:
    path = Path(graph.uri).parent / "input.jsonl"
    path.write_text("".join(json.dumps({"type": kind, "data": row}) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("replace", [False, True])
def test_without_a_provider_a_changed_text_has_no_vector(
    graph: og.Graph,
    server: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    replace: bool,
) -> None:
    graph.load({"Doc": [doc(slug, text=f"text of {slug}", page=1) for slug in "abc"]})
    forget(server, monkeypatch)
    graph = reopened(graph)
    lines = [doc("a", text="new"), doc("b", text="text of b"), doc("c", page=2), doc("d", text="d")]
    done = graph.load(ndjson(graph, lines), mode="merge", replace=replace, idempotency_key="k")
    assert vectors(graph) == {
        "a": ("new", None),
        "b": computed("text of b"),
        "c": (None, None) if replace else computed("text of c"),
        "d": ("d", None),
    }
    (warning,) = done.warnings
    assert (warning.code, warning.count) == ("embedding_provider_missing", 2)
    assert "Doc.vec" in warning.message
    assert done.vectors_missing == 2
    again = graph.load(ndjson(graph, lines), mode="merge", replace=replace, idempotency_key="k")
    assert again.replayed
    assert (again.warnings, again.vectors_missing) == (done.warnings, 2)


def test_a_null_vector_is_computed_when_its_text_is_written_again(
    graph: og.Graph, server: EmbeddingServer
) -> None:
    graph.load({"Doc": [doc("a", text="one")]})
    graph.mutate('query q() { update Doc set { vec: null } where slug = "a" }')
    graph.load({"Doc": [doc("a", text="one")]}, mode="merge")
    assert vectors(graph) == {"a": computed("one")}


def test_a_vector_that_is_named_null_stays_null(graph: og.Graph, server: EmbeddingServer) -> None:
    graph.load({"Doc": [doc("a", text="one", vec=None)]})
    assert vectors(graph) == {"a": ("one", None)}
    assert server.texts == []


def test_defaults_and_new_entities_have_vectors(graph: og.Graph, server: EmbeddingServer) -> None:
    graph.load({"Note": [{"text": "x"}, {"vec": GIVEN}]})
    graph.load({"Note": pa.table({"id": ["n1", "n2"], "text": ["y", "z"]})}, mode="merge")
    graph.load(ndjson(graph, [{}], "Note"))
    found = graph.query("query q() { match { $n: Note } return { $n.text as t, $n.vec as v } }")
    pairs = sorted(((row["t"], row["v"]) for row in found), key=lambda pair: str(pair[0]))
    assert [text for text, _ in pairs] == ["none", "none", "x", "y", "z"]
    for text, vector in pairs:
        assert vector == GIVEN or vector == pytest.approx(vector_of(text, 4))


def test_bytes_come_along(graph: og.Graph) -> None:
    graph.load({"Doc": [doc("a", text="one", scan="base64:aGVsbG8=")]})
    graph.load({"Doc": [doc("a", text="two")]}, mode="merge")
    assert graph.read_blob("Doc", "a", "scan") == b"hello"
    assert vectors(graph) == {"a": computed("two")}


# -- vectors that cannot be null -------------------------------------------------------------------


def test_a_required_vector_is_computed(graph: og.Graph) -> None:
    graph.load({"Strict": [doc("a", text="one")]})
    graph.load({"Strict": [doc("a", text="two"), doc("b", text="three")]}, mode="merge")
    graph.load({"Strict": [doc("b", text="three", size=3)]}, mode="merge", replace=True)
    assert vectors(graph, "Strict") == {"a": computed("two"), "b": computed("three")}
    with pytest.raises(ConstraintViolated) as caught:
        graph.load({"Strict": [doc("c"), doc("d", text="one")]})
    assert [(v["rule"], v["id"]) for v in caught.value.violations] == [("required", "c")]


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_without_a_provider_a_required_vector_is_refused_with_what_to_do(
    graph: og.Graph, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, mode: LoadMode
) -> None:
    graph.load({"Strict": [doc("a", text="one")]})
    forget(server, monkeypatch)
    graph = reopened(graph)
    with pytest.raises(InvalidInput) as caught:
        graph.load({"Strict": [doc("b", text="two")]}, mode=mode)
    assert caught.value.code is Code.SETTINGS_INVALID
    assert caught.value.details["variable"] == "OMNIGRAPH_EMBED_PROVIDER"
    assert "Strict.vec" in str(caught.value)
    # Nothing is missing here: the text is the same, or its vector is given.
    graph.load({"Strict": [doc("a", text="one"), doc("b", text="x", vec=GIVEN)]}, mode="merge")
    assert vectors(graph, "Strict") == {"a": computed("one"), "b": ("x", GIVEN)}


def test_nobody_is_asked_for_rows_that_are_refused(
    graph: og.Graph, server: EmbeddingServer
) -> None:
    wrong = '{"type": "Strict", "data": {"slug": "a", "text": "one", "size": "many"}}\n'
    path = Path(graph.uri).parent / "wrong.jsonl"
    path.write_text(wrong + '{"type": "Strict", "data": {"slug": "b", "text": "two"}}\n')
    for mode in ("append", "merge"):
        with pytest.raises(ConstraintViolated) as caught:
            graph.load(path, mode=mode)
        assert len(caught.value.violations) == 1
    assert server.texts == []


def test_a_provider_that_fails_fails_the_load(
    graph: og.Graph, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.load({"Doc": [doc("a", text="one")]})
    server.refuse.add("bad")
    with pytest.raises(InvalidInput) as caught:
        graph.load({"Doc": [doc("a", text="bad")]}, mode="merge")
    assert "secret-key" not in str(caught.value.to_json())
    monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "1")
    graph = reopened(graph)
    with pytest.raises(Unavailable):
        graph.load({"Doc": [doc("a", text="other")]}, mode="merge")
    assert vectors(graph) == {"a": computed("one")}


def test_a_load_asks_in_batches(
    tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(server, monkeypatch)
    monkeypatch.setenv("OMNIGRAPH_EMBED_BATCH", "50")
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    slugs = [f"{number:03}" for number in range(300)]
    table = pa.table({"slug": slugs, "text": [f"text {int(slug) % 120}" for slug in slugs]})
    graph.load({"Doc": table})
    assert sorted(map(len, server.requests)) == [20, 50, 50]
    assert sorted(server.texts) == sorted({f"text {number}" for number in range(120)})
