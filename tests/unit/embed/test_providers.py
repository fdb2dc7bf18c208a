import json
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph.embed import local
from omnigraph.embed.config import EmbedConfig, make_embedder
from omnigraph.embed.http import HttpEmbedder, RequestPolicy
from omnigraph.embed.local import DIM_MAX, LocalEmbedder, MockEmbedder
from omnigraph.embed.provider import Purpose, Vector, checked
from omnigraph.embed.source import Embeddings
from omnigraph.errors import GraphError, InvalidInput, Unauthenticated, Unavailable
from omnigraph.runtime.clock import ManualClock

Answer = tuple[int, bytes, str | None] | OSError


# -- mock ----------------------------------------------------------------------------------


def test_the_mock_is_stable_and_has_length_one() -> None:
    (first, second, again) = MockEmbedder().embed(["a", "b", "a"], 8, Purpose.DOCUMENT)
    assert first == again != second
    assert math.hypot(*first) == pytest.approx(1)
    assert first == MockEmbedder().embed(["a"], 8, Purpose.QUERY)[0]
    # Pinned: whoever stored such vectors finds them in the next release, too.
    assert [round(number, 6) for number in first[:2]] == PINNED


PINNED = [0.508546, 0.345421]


def test_the_mock_takes_any_text() -> None:
    for text in ("", "\ud800", "x" * 10_000):
        (vector,) = MockEmbedder().embed([text], 3, Purpose.QUERY)
        assert any(vector)


# -- what is accepted as a vector ----------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "vector",
        [1.0],
        [1.0, 2.0, 3.0],
        [1.0, "2"],
        [1.0, None],
        [True, False],
        [1.0, math.nan],
        [1.0, math.inf],
        [1.0, 1e39],
        [1.0, 10**400],
        [0.0, 0.0],
        [1e-60, 0.0],
    ],
)
def test_unusable_vectors_are_refused(answer: object) -> None:
    with pytest.raises(Unavailable) as caught:
        checked(answer, 2, "m")
    assert caught.value.details["model"] == "m"


def test_a_vector_is_rounded_to_what_is_stored() -> None:
    assert checked([1, 0.1], 2, "m") == (1.0, 0.10000000149011612)


# -- over HTTP -----------------------------------------------------------------------------


@dataclass
class Server:
    """Answers as told, and remembers what it was asked."""

    answers: list[Answer]
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)

    def __call__(
        self, url: str, headers: dict[str, str], body: bytes, timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        assert url == "http://there/v1/embeddings"
        self.asked.append(json.loads(body))
        self.headers.append(headers)
        self.timeouts.append(timeout_s)
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(int(seconds * 1_000_000))

    def embedder(self, **patience: int) -> HttpEmbedder:
        return HttpEmbedder(
            base_url="http://there/v1/",
            model="m",
            api_key="secret",
            patience=RequestPolicy(**patience),
            clock=self.clock,
            transport=self,
            wait=self.wait,
        )


def vectors(*rows: Sequence[float], start: int = 0) -> Answer:
    data = [{"index": place, "embedding": list(row)} for place, row in enumerate(rows, start)]
    return 200, json.dumps({"data": data}).encode(), None


def status(code: int, after: str | None = None, text: str = "no") -> Answer:
    return code, text.encode(), after


def ask(server: Server, texts: Sequence[str] = ("a",), **patience: int) -> list[Vector]:
    return server.embedder(**patience).embed(texts, 2, Purpose.QUERY)


def test_texts_are_sent_and_vectors_are_put_in_order() -> None:
    data = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    server = Server([(200, json.dumps({"data": data}).encode(), None)])
    assert ask(server, ["a", "b"]) == [(1.0, 0.0), (0.0, 1.0)]
    (asked,) = server.asked
    assert (asked["model"], asked["input"], asked["dimensions"]) == ("m", ["a", "b"], 2)
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_many_texts_go_in_batches() -> None:
    server = Server([vectors((1, 0), (1, 1)), vectors((0, 1))])
    assert ask(server, ["a", "b", "c"], batch=2) == [(1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    assert [each["input"] for each in server.asked] == [["a", "b"], ["c"]]


def test_a_busy_server_is_asked_again_with_growing_pauses() -> None:
    server = Server([status(503), OSError("reset"), status(429), vectors((1, 0))])
    assert ask(server) == [(1.0, 0.0)]
    assert server.waits == [0.2, 0.4, 0.8]


def test_a_server_may_say_how_long_to_wait() -> None:
    server = Server([status(429, after="7"), vectors((1, 0))])
    ask(server)
    assert server.waits == [7.0]


def test_attempts_are_bounded() -> None:
    server = Server([status(500)] * 3)
    with pytest.raises(Unavailable) as caught:
        ask(server, attempts=3)
    assert caught.value.details["attempts"] == 3
    assert not server.answers


def test_nobody_waits_past_the_deadline() -> None:
    server = Server([status(503, after="120"), vectors((1, 0))])
    with pytest.raises(Unavailable):
        ask(server, deadline_ms=60_000)
    assert server.waits == []


def test_a_request_takes_no_longer_than_is_left() -> None:
    server = Server([status(503, after="50"), vectors((1, 0))])
    ask(server, deadline_ms=60_000, timeout_ms=30_000)
    assert server.timeouts == [30.0, 10.0]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(400), InvalidInput),
        (status(404), InvalidInput),
        (status(401), Unauthenticated),
        (status(302), InvalidInput),
    ],
)
def test_a_refusal_is_final(answer: Answer, kind: type[GraphError]) -> None:
    server = Server([answer])
    with pytest.raises(kind):
        ask(server)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"data": []}',
        b'{"data": [1]}',
        b'{"data": [{"embedding": [1, 2, 3]}]}',
        b'{"data": [{"index": 5, "embedding": [1, 2]}]}',
        b'{"data": [{"index": [], "embedding": [1, 2]}]}',
        b'{"data": [{"embedding": [1, NaN]}]}',
        b'{"data": null}',
    ],
)
def test_a_strange_answer_is_no_vector(body: bytes) -> None:
    with pytest.raises(Unavailable):
        ask(Server([(200, body, None)]))


def test_an_answer_that_is_cut_off_is_asked_for_again() -> None:
    server = Server([(200, b'{"data": [', None), vectors((1, 0))])
    assert ask(server) == [(1.0, 0.0)]


def test_the_key_is_never_shown() -> None:
    server = Server([status(401, text="who are you")])
    with pytest.raises(Unauthenticated) as caught:
        ask(server)
    assert "secret" not in str(caught.value.to_json())
    assert "secret" not in repr(EmbedConfig(api_key="secret"))
    with pytest.raises(InvalidInput):
        HttpEmbedder(base_url="http://there", model="m", api_key="a\r\nHost: b")
    with pytest.raises(InvalidInput):
        HttpEmbedder(base_url="file:///etc/passwd", model="m")


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/moved/embeddings":
            self.send_response(307)
            self.send_header("Location", "/v1/embeddings")
            self.end_headers()
            return
        rows = [{"index": n, "embedding": [1.0, n]} for n, _ in enumerate(body["input"])]
        content = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_real_server_answers(address: str) -> None:
    embedder = HttpEmbedder(base_url=f"{address}/v1", model="m")
    assert embedder.embed(["a", "b"], 2, Purpose.DOCUMENT) == [(1.0, 0.0), (1.0, 1.0)]


def test_a_redirect_is_not_followed(address: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HttpEmbedder(base_url=f"{address}/moved", model="m").embed(["a"], 2, Purpose.QUERY)
    assert caught.value.details["status"] == 307


# -- configuration -------------------------------------------------------------------------


def test_what_the_caller_says_wins_over_the_environment() -> None:
    environment = {
        "OMNIGRAPH_EMBED_PROVIDER": "openai-compatible",
        "OMNIGRAPH_EMBED_BASE_URL": "http://there",
        "OMNIGRAPH_EMBED_MODEL": "theirs",
        "OPENAI_API_KEY": "k",
        "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "9",
    }
    config = EmbedConfig(model="mine").over(environment)
    assert (config.provider, config.model, config.api_key) == ("openai-compatible", "mine", "k")
    assert config.patience == RequestPolicy(attempts=9)
    assert make_embedder(config).model == "mine"
    assert make_embedder(EmbedConfig(provider="mock").over({})).model == "mock"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "OMNIGRAPH_EMBED_PROVIDER"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "nothing"}, "nothing"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "ollama"}, "OMNIGRAPH_EMBED_MODEL"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://there"}, "OMNIGRAPH_EMBED_MODEL"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, "GEMINI_API_KEY"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_MODEL": "m"}, "OPENAI_API_KEY"),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "openai-compatible", "OMNIGRAPH_EMBED_MODEL": "m"},
            "OMNIGRAPH_EMBED_BASE_URL",
        ),
        ({"OMNIGRAPH_EMBED_TIMEOUT_MS": "soon"}, "OMNIGRAPH_EMBED_TIMEOUT_MS"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "local", "OMNIGRAPH_EMBED_MODEL": "m"}, "wordllama"),
    ],
)
def test_what_is_missing_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        make_embedder(EmbedConfig().over(environment))


# -- as queries use it ---------------------------------------------------------------------


class Counting(MockEmbedder):
    def __init__(self) -> None:
        super().__init__("small")
        self.calls: list[tuple[tuple[str, ...], Purpose]] = []

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        self.calls.append((tuple(texts), purpose))
        return super().embed(texts, dim, purpose)


def test_nobody_makes_a_provider_that_is_not_needed() -> None:
    def make() -> MockEmbedder:
        raise AssertionError("not needed")

    assert Embeddings(make).embed_texts([], 3, "any") == []


def test_a_question_is_embedded_once() -> None:
    provider = Counting()
    embeddings = Embeddings(lambda: provider)
    first = embeddings.embed_query("a", 3, None)
    assert embeddings.embed_query("a", 3, "small") == first
    assert embeddings.embed_texts(["a"], 3, "small") == [first]
    assert provider.calls == [(("a",), Purpose.QUERY), (("a",), Purpose.DOCUMENT)]
    with pytest.raises(InvalidInput) as caught:
        embeddings.embed_query("a", 3, "large")
    assert caught.value.details == {"wanted": "large", "configured": "small"}


def test_a_provider_of_somebody_else_is_checked() -> None:
    class Broken(MockEmbedder):
        def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
            return [(0.0,) * dim for _ in texts][: self.count]

        count = 1

    provider = Broken()
    with pytest.raises(Unavailable):
        Embeddings(lambda: provider).embed_query("a", 3, None)
    with pytest.raises(Unavailable):
        Embeddings(lambda: provider).embed_texts(["a", "b"], 3, None)


def test_the_local_model_has_a_bound_and_wants_text() -> None:
    with pytest.raises(InvalidInput):
        LocalEmbedder().embed(["a"], DIM_MAX + 1, Purpose.QUERY)
    with pytest.raises(InvalidInput):
        LocalEmbedder().embed([" "], 64, Purpose.QUERY)


class _Model:
    """A stand-in for the model of the package, with other numbers."""

    def embed(self, texts: list[str], *, norm: bool) -> npt.NDArray[np.float32]:
        assert not norm
        return np.array([[3.0, 4.0, 9.0] if text != "void" else [0.0] * 3 for text in texts], "f4")


def test_the_local_model_is_cut_normalised_and_never_downloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = ModuleType("wordllama")
    package.__file__ = "/packages/wordllama/__init__.py"
    loads: list[tuple[str, bool]] = []

    class WordLlama:
        @staticmethod
        def load(*, cache_dir: object, disable_download: bool) -> _Model:
            loads.append((str(cache_dir), disable_download))
            return _Model()

    package.WordLlama = WordLlama  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wordllama", package)
    local._loaded.cache_clear()
    try:
        vectors = LocalEmbedder().embed(["a", "b"], 2, Purpose.QUERY)
        assert vectors == [pytest.approx((0.6, 0.8))] * 2
        with pytest.raises(Unavailable):
            LocalEmbedder().embed(["void"], 2, Purpose.QUERY)
    finally:
        local._loaded.cache_clear()
    assert loads == [("/packages/wordllama", True)]


def test_the_local_model_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(InvalidInput, match="pip install wordllama"):
        LocalEmbedder().embed(["a"], 2, Purpose.QUERY)
