"""The services that are spoken to over HTTP, and how the environment names them."""

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from omnigraph.embed.cache import VectorCache
from omnigraph.embed.config import EmbedConfig, configured_embedder, make_embedder
from omnigraph.embed.http import HttpEmbedder, RequestPolicy
from omnigraph.embed.local import MockEmbedder
from omnigraph.embed.provider import Purpose
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, InvalidInput
from tests.embeddings import EmbeddingServer, embedding_server, vector_of


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


@pytest.mark.parametrize(
    ("variables", "path", "key"),
    [
        (
            {"PROVIDER": "openai-compatible", "BASE_URL": "/v1", "OPENAI_API_KEY": "k"},
            "/v1/embeddings",
            ("authorization", "Bearer k"),
        ),
        (
            {"PROVIDER": "openai", "BASE_URL": "/v1/", "OPENAI_API_KEY": "k"},
            "/v1/embeddings",
            ("authorization", "Bearer k"),
        ),
        (
            {"PROVIDER": "gemini", "BASE_URL": "/v1beta", "GEMINI_API_KEY": "k"},
            "/v1beta/models/m:batchEmbedContents",
            ("x-goog-api-key", "k"),
        ),
        ({"PROVIDER": "ollama", "BASE_URL": ""}, "/api/embed", ("authorization", None)),
    ],
)
def test_each_service_is_spoken_to_in_its_own_way(
    server: EmbeddingServer, variables: dict[str, str], path: str, key: tuple[str, str | None]
) -> None:
    environment = {
        name if name.endswith("KEY") else f"OMNIGRAPH_EMBED_{name}": value
        for name, value in variables.items()
    }
    environment["OMNIGRAPH_EMBED_BASE_URL"] = server.address + variables["BASE_URL"]
    environment["OMNIGRAPH_EMBED_MODEL"] = "m"
    embedder = configured_embedder(environment)
    assert embedder is not None
    found = embedder.embed(["a", "b"], 4, Purpose.QUERY)
    for text, vector in zip(("a", "b"), found, strict=True):
        assert vector == pytest.approx(vector_of(text, 4), abs=1e-6)
    assert server.paths == [path]
    name, value = key
    assert server.headers[0].get(name) == value


def test_gemini_is_told_what_a_text_is_for(server: EmbeddingServer) -> None:
    config = EmbedConfig(provider="gemini", base_url=server.address, model="m", api_key="k")
    embedder = make_embedder(config)
    for purpose in (Purpose.DOCUMENT, Purpose.QUERY):
        embedder.embed(["a"], 2, purpose)
    tasks = [body["requests"][0]["taskType"] for body in server.bodies]
    assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]


def test_many_texts_are_asked_for_in_batches_some_at_a_time(server: EmbeddingServer) -> None:
    patience = RequestPolicy(batch=3, concurrency=2)
    embedder = HttpEmbedder(base_url=f"{server.address}/v1", model="m", patience=patience)
    texts = [f"text {number}" for number in range(20)]
    assert embedder.embed(texts, 4, Purpose.DOCUMENT) == [vector_of(text, 4) for text in texts]
    assert sorted(map(len, server.requests)) == [2, 3, 3, 3, 3, 3, 3]
    assert sorted(server.texts) == sorted(texts)
    assert server.most_at_once <= 2


def test_a_pickled_provider_is_the_same_elsewhere(server: EmbeddingServer) -> None:
    embedder = configured_embedder(server.variables)
    assert embedder is not None
    again = pickle.loads(pickle.dumps(embedder))
    assert again.embed(["a"], 4, Purpose.DOCUMENT) == [vector_of("a", 4)]
    assert server.headers[0]["authorization"] == "Bearer secret-key"
    assert "secret-key" not in repr(again)


# -- what is never shown ---------------------------------------------------------------------------


def test_a_key_that_a_server_repeats_is_not_shown(server: EmbeddingServer) -> None:
    server.refuse.add("a")
    embedder = configured_embedder(server.variables)
    assert embedder is not None
    with pytest.raises(InvalidInput) as caught:
        embedder.embed(["a"], 4, Purpose.DOCUMENT)
    assert "Bearer ***" in str(caught.value)
    assert "secret-key" not in str(caught.value.to_json())


@pytest.mark.parametrize(
    "address", ["http://me:hidden@there/v1", "http://there/v1?key=hidden", "ftp://me:hidden@there"]
)
def test_an_address_with_a_secret_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HttpEmbedder(base_url=address, model="m")
    assert "hidden" not in str(caught.value.to_json())


# -- the environment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "url", "model", "key"),
    [
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENAI_API_KEY": "k"},
            "https://api.openai.com/v1/embeddings",
            "text-embedding-3-large",
            "k",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible", "OPENROUTER_API_KEY": "k"},
            "https://openrouter.ai/api/v1/embeddings",
            "openai/text-embedding-3-large",
            "k",
        ),
        (
            {
                "OMNIGRAPH_EMBED_PROVIDER": "openai-compatible",
                "OMNIGRAPH_EMBED_BASE_URL": "http://there",
                "OMNIGRAPH_EMBED_MODEL": "m",
                "OPENROUTER_API_KEY": "for somebody else",
            },
            "http://there/embeddings",
            "m",
            None,
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": "k"},
            "https://generativelanguage.googleapis.com/v1beta"
            "/models/gemini-embedding-2:batchEmbedContents",
            "gemini-embedding-2",
            "k",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "ollama", "OMNIGRAPH_EMBED_MODEL": "m"},
            "http://localhost:11434/api/embed",
            "m",
            None,
        ),
    ],
)
def test_the_variables_name_a_service(
    environment: dict[str, str], url: str, model: str, key: str | None
) -> None:
    embedder = configured_embedder(environment)
    assert isinstance(embedder, HttpEmbedder)
    assert (embedder._url, embedder.model, embedder._api_key) == (url, model, key)


def test_a_key_alone_chooses_nobody() -> None:
    keys = dict.fromkeys(("OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"), "k")
    assert configured_embedder(keys) is None
    assert configured_embedder({}) is None


def test_the_mock_can_be_forced() -> None:
    environment = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "gemini"}
    assert isinstance(configured_embedder(environment), MockEmbedder)
    off = {"OMNIGRAPH_EMBEDDINGS_MOCK": "0"}
    assert configured_embedder(off) is None


# -- what a graph uses -----------------------------------------------------------------------------


def test_equal_texts_are_asked_for_once(server: EmbeddingServer) -> None:
    embeddings = Embeddings(lambda: configured_embedder(server.variables))
    rows = embeddings.embed_rows(["a", "b", "a"], 4, "m")
    assert rows.dtype == np.float32
    assert [tuple(row.tolist()) for row in rows] == [vector_of(text, 4) for text in "aba"]
    embeddings.embed_rows(["b", "c"], 4, "m")
    assert server.requests == [["a", "b"], ["c"]]


def test_without_a_provider_it_says_what_to_set() -> None:
    embeddings = Embeddings(lambda: configured_embedder({}))
    assert not embeddings.has_provider
    with pytest.raises(InvalidInput, match="OMNIGRAPH_EMBED_PROVIDER") as caught:
        embeddings.embed_rows(["a"], 4, None)
    assert caught.value.code is Code.SETTINGS_INVALID


def test_that_there_is_no_provider_is_known_elsewhere() -> None:
    assert not pickle.loads(pickle.dumps(Embeddings(lambda: None))).has_provider


def test_what_is_missing_is_told_where_it_is_needed() -> None:
    environment = {"OMNIGRAPH_EMBED_PROVIDER": "gemini"}
    travelled = pickle.loads(pickle.dumps(Embeddings(lambda: configured_embedder(environment))))
    with pytest.raises(InvalidInput, match="GEMINI_API_KEY"):
        travelled.embed_rows(["a"], 4, None)


def test_a_cache_has_a_bound() -> None:
    cache = VectorCache(bytes_max=2 * (4 * 4 + 256))
    for text in "abc":
        cache.put("m", 4, text, np.zeros(4, np.float32))
    assert [cache.get("m", 4, text) is not None for text in "abc"] == [False, True, True]
    assert cache.get("other", 4, "c") is None
