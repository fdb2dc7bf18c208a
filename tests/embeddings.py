"""A server of embeddings on loopback that speaks like each of the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from omnigraph.embed.local import MockEmbedder
from omnigraph.embed.provider import Purpose, Vector


def vector_of(text: str, dim: int) -> Vector:
    """What the server answers for a text."""
    return MockEmbedder().embed([text], dim, Purpose.DOCUMENT)[0]


@dataclass
class EmbeddingServer:
    """What a running server was asked, and how to reach it.

    Attributes:
        address: Where it listens, without a path.
        requests: The texts of each request.
        paths: The path of each.
        headers: The headers of each, by lower-case name.
        bodies: What was sent.
        refuse: Answer these texts with status 400.
        most_at_once: How many requests it had to answer at the same time at most.
    """

    address: str = ""
    requests: list[list[str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    refuse: set[str] = field(default_factory=set)
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _running: int = 0

    @property
    def texts(self) -> list[str]:
        """Every text that it was asked for."""
        return [text for texts in self.requests for text in texts]

    @property
    def variables(self) -> dict[str, str]:
        """What the environment says to use it."""
        return {
            "OMNIGRAPH_EMBED_PROVIDER": "openai-compatible",
            "OMNIGRAPH_EMBED_BASE_URL": f"{self.address}/v1",
            "OMNIGRAPH_EMBED_MODEL": "m",
            "OPENAI_API_KEY": "secret-key",
        }

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        """The status and the answer to one request."""
        if path.endswith(":batchEmbedContents"):
            texts = [each["content"]["parts"][0]["text"] for each in body["requests"]]
            dim = body["requests"][0]["outputDimensionality"]
        else:
            texts, dim = body["input"], body["dimensions"]
        with self.lock:
            self.requests.append(texts)
            self.paths.append(path)
            self.headers.append(headers)
            self.bodies.append(body)
        if self.refuse.intersection(texts):
            return 400, {"error": f"refused with {headers.get('authorization')}"}
        vectors = [list(vector_of(text, dim)) for text in texts]
        if path.endswith(":batchEmbedContents"):
            # Twice as long: whoever asks has to care about the length.
            return 200, {"embeddings": [{"values": [2 * x for x in each]} for each in vectors]}
        if path == "/api/embed":
            return 200, {"model": body["model"], "embeddings": vectors}
        data = [{"index": place, "embedding": each} for place, each in enumerate(vectors)]
        return 200, {"data": data[::-1]}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request while it runs."""
        with self.lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        try:
            yield
        finally:
            with self.lock:
                self._running -= 1


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A server that runs until the block ends."""
    state = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with state.one():
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, answer = state.answer(self.path, headers, body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
