"""`graph.embed`: vectors that are null are computed, in batches that stay."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.embed.local import MockEmbedder
from omnigraph.embed.provider import Purpose, Vector
from omnigraph.errors import Forbidden, InvalidInput, Unavailable
from tests.embeddings import EmbeddingServer, embedding_server, vector_of

SCHEMA = """
node Doc {
    slug: String @key
    page: I32?
    scan: Blob?
    text: String?
    vec: Vector(4)? @embed(text)
    title: String?
    title_vec: Vector(2)? @embed(title)
}
node Note { text: String  vec: Vector(4)? @embed(text) }
node Plain { slug: String @key }
"""
GIVEN = [1.0, 2.0, 3.0, 4.0]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph that was filled without a provider."""
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    rows: list[dict[str, Any]] = [
        {"slug": f"{number:02}", "text": f"text {number}"} for number in range(10)
    ]
    rows[3] |= {"text": None}
    rows[4] |= {"vec": GIVEN}
    rows[5] |= {"title": "five", "scan": "base64:aGVsbG8="}
    graph.load({"Doc": rows, "Note": [{"text": "a"}, {"text": "a"}], "Plain": [{"slug": "p"}]})
    graph.close()
    return og.open(tmp_path / "g.omni")


def use(server: EmbeddingServer, patch: pytest.MonkeyPatch) -> None:
    for name, value in server.variables.items():
        patch.setenv(name, value)


def vectors(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    query = "query q() { match { $d: Doc } return { $d.slug as s, $d.vec as v } }"
    return {row["s"]: row["v"] for row in graph.query(query, branch=branch)}


def expected() -> dict[str, Any]:
    found = {f"{n:02}": pytest.approx(vector_of(f"text {n}", 4)) for n in range(10)}
    return {**found, "03": None, "04": GIVEN}


def test_what_is_missing_is_computed(
    graph: og.Graph, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(server, monkeypatch)
    done = graph.embed(actor="filler")
    assert done.vectors == {"node:Doc.title_vec": 1, "node:Doc.vec": 8, "node:Note.vec": 2}
    assert (done.commits, done.skipped, done.engine) == (3, 0, "inprocess")
    assert done.commit is not None
    assert done.commit.actor == "filler"
    assert vectors(graph) == expected()
    # Equal texts once, and nothing of what is there: not its bytes, its other values.
    assert sorted(server.texts) == sorted(
        ["a", "five", *(f"text {n}" for n in (*range(3), *range(5, 10)))]
    )
    assert graph.read_blob("Doc", "05", "scan") == b"hello"
    again = graph.embed()
    assert (again.commit, again.commits, again.vectors) == (None, 0, {})


def test_types_and_branches_can_be_chosen(
    graph: og.Graph, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(server, monkeypatch)
    graph.branches.create("side")
    done = graph.embed(types=["Note"], branch="side")
    assert done.vectors == {"node:Note.vec": 2}
    assert vectors(graph, "side")["00"] is None
    graph.embed(branch="side")
    assert vectors(graph, "side") == expected()
    assert vectors(graph)["00"] is None
    with pytest.raises(InvalidInput):
        graph.embed(types=["Nothing"])
    assert graph.embed(types=["Plain"]).commits == 0


class Stopping:
    """A provider that stops answering after some texts."""

    model = "m"

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        if self.answers <= 0:
            raise KeyboardInterrupt
        self.answers -= 1
        self.texts += texts
        return [vector_of(text, dim) for text in texts]


def test_an_interrupted_call_goes_on_where_it_was(graph: og.Graph) -> None:
    uri = graph.uri
    graph.close()
    first = Stopping(2)
    with og.open(uri, embedder=first) as one, pytest.raises(KeyboardInterrupt):
        one.embed(types=["Doc"], batch=3)
    with og.open(uri, embedder=(second := Stopping(99))) as two:
        left = [slug for slug, vector in vectors(two).items() if vector is None]
        done = two.embed(types=["Doc"], batch=3)
        assert vectors(two) == expected()
    assert len(first.texts) == 1 + 3
    assert len(left) == 9 - 3
    assert done.vectors == {"node:Doc.vec": 5}
    assert not set(first.texts) & set(second.texts)


def test_a_batch_is_a_commit(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    before = len(list(graph.commits.list()))
    seen: list[og.Progress] = []
    done = graph.embed(types=["Doc"], batch=3, progress=seen.append)
    assert done.commits == 1 + 3
    assert len(list(graph.commits.list())) == before + 4
    assert (seen[-1].operation, seen[-1].rows) == ("embed", 9)


class Meddling(MockEmbedder):
    """A provider during whose answer somebody else changes the graph."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self.action: Callable[[], None] | None = action

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        if dim == 4 and self.action is not None:
            action, self.action = self.action, None
            action()
        return super().embed(texts, dim, purpose)


def test_what_others_change_meanwhile_is_theirs(graph: og.Graph) -> None:
    uri = graph.uri
    other = graph

    def meddle() -> None:
        other.mutate(
            """query q() {
                 update Doc set { text: "newer", page: 1 } where slug = "00"
                 update Doc set { vec: [9.0, 9.0, 9.0, 9.0] } where slug = "01"
               }"""
        )
        other.mutate('query q() { delete Doc where slug = "02" }')
        other.mutate('query q() { update Doc set { page: 7 } where slug = "05" }')

    with og.open(uri, embedder=Meddling(meddle)) as mine:
        done = mine.embed(types=["Doc"])
        found = vectors(mine)
    assert found["00"] is None
    assert found["01"] == [9.0] * 4
    assert "02" not in found
    assert found["05"] == pytest.approx(vector_of("text 5", 4))
    assert done.skipped == 3
    assert vectors(other) == found


def test_everything_can_be_computed_anew(graph: og.Graph) -> None:
    uri = graph.uri
    graph.close()
    with og.open(uri, embedder=MockEmbedder()) as one:
        done = one.embed(types=["Doc"], missing=False, batch=4)
        assert done.vectors == {"node:Doc.title_vec": 1, "node:Doc.vec": 9}
        assert vectors(one)["04"] == pytest.approx(vector_of("text 4", 4))


def test_without_a_provider_it_is_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="OMNIGRAPH_EMBED_PROVIDER"):
        graph.embed()
    monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m")
    monkeypatch.setenv("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "1")
    with pytest.raises(Unavailable):
        graph.embed()
    with og.open(graph.uri, "r") as reader, pytest.raises(Forbidden):
        reader.embed()
    for wrong in (0, -1, "many"):
        with pytest.raises(InvalidInput):
            graph.embed(batch=wrong)  # type: ignore[arg-type]


def test_many_rows_are_read_in_pieces(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "many.omni", SCHEMA)
    count = 5_000
    slugs = pa.array([str(number) for number in range(count)])
    graph.load({"Doc": pa.table({"slug": slugs, "text": slugs})})
    graph.close()
    with og.open(graph.uri, embedder=MockEmbedder()) as other:
        done = other.embed()
        assert (done.vectors, done.commits) == ({"node:Doc.vec": count}, 2)
        assert vectors(other)["4999"] == pytest.approx(vector_of("4999", 4))
