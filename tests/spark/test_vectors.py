"""Vectors that the workers of Spark compute."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.embed.provider import Purpose, Vector
from omnigraph.errors import InvalidInput
from tests.embeddings import EmbeddingServer, embedding_server, vector_of

SCHEMA = """
node Doc { slug: String @key  text: String?  vec: Vector(4)? @embed(text) }
node Strict { slug: String @key  text: String?  vec: Vector(4) @embed(text) }
"""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


@pytest.fixture
def graph(
    tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[og.Graph]:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        yield graph


def vectors(graph: og.Graph) -> dict[str, tuple[str | None, Any]]:
    query = "query q() { match { $d: Doc } return { $d.slug as s, $d.text as t, $d.vec as v } }"
    return {row["s"]: (row["t"], row["v"]) for row in graph.query(query)}


def computed(text: str) -> tuple[str, Any]:
    return text, pytest.approx(vector_of(text, 4))


def doc(slug: str, **data: Any) -> dict[str, Any]:
    return {"slug": slug, **data}


def test_loads_and_missing_vectors(
    graph: og.Graph, server: EmbeddingServer, local: HeldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark: dict[str, Any] = {"engine": "spark", "spark": local.session}
    graph.load({"Doc": [doc("a", text="one"), doc("b", text="two"), doc("c")]}, **on_spark)
    assert vectors(graph) == {"a": computed("one"), "b": computed("two"), "c": (None, None)}
    change = [doc("a", text="new"), doc("b", text="two"), doc("c", text="three")]
    done = graph.load({"Doc": change}, mode="merge", **on_spark)
    assert done.engine == "spark"
    assert vectors(graph) == {"a": computed("new"), "b": computed("two"), "c": computed("three")}
    assert sorted(server.texts) == ["new", "one", "three", "two"]
    frame = local.session.createDataFrame([("a", "framed"), ("d", "four")], ["slug", "text"])
    graph.load({"Doc": frame}, mode="merge")
    assert vectors(graph)["a"] == computed("framed")

    # A server that refuses: the key is not in what the workers tell.
    server.refuse.add("bad")
    with pytest.raises(InvalidInput) as caught:
        graph.load({"Doc": [doc("e", text="bad")]}, **on_spark)
    assert "secret-key" not in str(caught.value.to_json())

    # Without a provider there is no vector, and it is told.
    uri = graph.uri
    for name in server.variables:
        monkeypatch.delenv(name)
    with og.open(uri) as without:
        done = without.load(
            {"Doc": [doc("a", text="last"), doc("b", text="two")]}, mode="merge", **on_spark
        )
        assert (vectors(without)["a"], done.vectors_missing) == (("last", None), 1)
        assert vectors(without)["b"] == computed("two")
        with pytest.raises(InvalidInput, match="OMNIGRAPH_EMBED_PROVIDER"):
            without.load({"Strict": [doc("a", text="last")]}, **on_spark)

    # Workers compute what is missing.
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    with og.open(uri) as again:
        filled = again.embed(**on_spark)
        assert (filled.engine, filled.vectors, filled.commits) == ("spark", {"node:Doc.vec": 1}, 1)
        assert vectors(again)["a"] == computed("last")


class Unsendable:
    """A provider that holds something which cannot travel."""

    model = "m"

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        return [vector_of(text, dim) for text in texts]


def test_a_provider_that_cannot_travel_is_named(graph: og.Graph, local: HeldSession) -> None:
    with (
        og.open(graph.uri, embedder=Unsendable()) as other,
        pytest.raises(InvalidInput, match="embedder"),
    ):
        other.load({"Doc": [doc("a", text="x")]}, engine="spark", spark=local.session)
