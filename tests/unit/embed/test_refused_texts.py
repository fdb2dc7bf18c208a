"""A text that the provider refuses: the write fails, and the error names the entity."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.embed.http import HttpEmbedder, RequestPolicy
from omnigraph.embed.provider import Purpose
from tests.embeddings import EmbeddingServer, embedding_server, vector_of

SCHEMA = "node Doc { slug: String @key  text: String?  vec: Vector(4)? @embed(text) }"
ADD = """
query add() { insert Doc { slug: "x", text: "fine" }  insert Doc { slug: "y", text: "bad" } }
query set() { update Doc set { text: "bad" } where slug = "03" }
"""
COUNT = "query count() { match { $d: Doc } return { count($d) as n } }"
ROWS = [{"slug": f"{n:02}", "text": f"text {n}"} for n in range(50)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        found.refuse.add("bad")
        yield found


def embedder(server: EmbeddingServer, batch: int = 16, concurrency: int = 4) -> HttpEmbedder:
    patience = RequestPolicy(batch=batch, concurrency=concurrency)
    return HttpEmbedder(base_url=f"{server.address}/v1", model="m", patience=patience)


@pytest.fixture
def graph(tmp_path: Path, server: EmbeddingServer) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, embedder=embedder(server)) as graph:
        yield graph


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("place", [0, 7, 15, 16, 49])
def test_the_text_to_blame_is_found(server: EmbeddingServer, place: int, concurrency: int) -> None:
    texts = [f"text {n}" for n in range(50)]
    texts[place] = "bad"
    with pytest.raises(og.errors.InvalidInput) as caught:
        embedder(server, concurrency=concurrency).embed(texts, 4, Purpose.DOCUMENT)
    assert caught.value.details["position"] == place
    assert caught.value.details["text"] == "bad"


def test_requests_that_are_too_large_are_made_smaller(server: EmbeddingServer) -> None:
    """A server may refuse what is together too much and take each text alone."""
    answer = server.answer
    server.answer = lambda path, headers, body: (  # type: ignore[method-assign]
        (413, {}) if len(body["input"]) > 3 else answer(path, headers, body)
    )
    texts = [f"text {n}" for n in range(20)]
    found = embedder(server).embed(texts, 4, Purpose.DOCUMENT)
    assert found == [pytest.approx(vector_of(text, 4)) for text in texts]


WRITES: dict[str, tuple[str, Callable[[og.Graph], object]]] = {
    "load": ("77", lambda graph: graph.load({"Doc": [*ROWS, {"slug": "77", "text": "bad"}]})),
    "merge": (
        "03",
        lambda graph: graph.load({"Doc": [{"slug": "03", "text": "bad"}]}, mode="merge"),
    ),
    "insert": ("y", lambda graph: graph.mutate(ADD, name="add")),
    "update": ("03", lambda graph: graph.mutate(ADD, name="set")),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_names_the_entity_and_changes_nothing(graph: og.Graph, name: str) -> None:
    if name != "load":
        graph.load({"Doc": ROWS})
    before = graph.snapshot().commit
    slug, write = WRITES[name]
    with pytest.raises(og.errors.InvalidInput, match=rf"`vec` of Doc '{slug}'.*`text`") as caught:
        write(graph)
    details = caught.value.details
    assert (details["type"], details["property"], details["id"]) == ("Doc", "vec", slug)
    assert details["text"] == "bad"
    assert "position" not in details
    assert graph.snapshot().commit == before


def test_filling_in_names_the_entity(tmp_path: Path, server: EmbeddingServer) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load({"Doc": [*ROWS, {"slug": "77", "text": "bad"}]})
    with (
        og.open(tmp_path / "g", embedder=embedder(server)) as graph,
        pytest.raises(og.errors.InvalidInput, match="Doc '77'"),
    ):
        graph.embed()


def test_a_vector_that_is_given_as_null_needs_no_provider(graph: og.Graph) -> None:
    graph.load({"Doc": [*ROWS, {"slug": "77", "text": "bad", "vec": None}]})
    assert graph.query(COUNT).to_pylist() == [{"n": 51}]
