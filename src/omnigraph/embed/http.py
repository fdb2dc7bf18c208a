"""Embeddings over HTTP, from anything that speaks like OpenAI's `/embeddings`."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from omnigraph.embed.provider import Purpose, Vector, checked
from omnigraph.errors import Code, GraphError, InvalidInput, Unauthenticated, Unavailable
from omnigraph.runtime.clock import Clock, SystemClock

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED: Final = frozenset({401, 403})
_BODY_MAX: Final = 256 << 20
_SHOWN: Final = 300
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often a provider is asked."""

    timeout_ms: int = 30_000  # one request
    deadline_ms: int = 60_000  # all attempts at one batch
    attempts: int = 4
    backoff_ms: int = 200  # doubled after each attempt
    batch: int = 256  # texts in one request


class Transport(Protocol):
    """Sends one request. A test brings its own."""

    def __call__(
        self, url: str, headers: dict[str, str], body: bytes, timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        """The status, the body and the `Retry-After` of the answer; OSError when there is none."""
        ...


class HttpEmbedder:
    """Asks a server for vectors; what it answers is checked. Thread-safe."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        patience: Patience | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Ask the server at `base_url` (for instance `https://api.openai.com/v1`)."""
        scheme = urlsplit(base_url).scheme
        if scheme not in ("http", "https"):
            message = f"the address of an embedding provider is http or https, not {base_url!r}"
            raise InvalidInput(Code.SETTINGS_INVALID, message)
        self.model = model
        self._url = base_url.rstrip("/") + "/embeddings"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {_header(api_key)}"
        self._patience = patience or Patience()
        self._clock = clock or SystemClock()
        self._send = transport or _send
        self._wait = wait or threading.Event().wait

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        """A vector for each text, some hundred texts a request."""
        step = self._patience.batch
        return [
            vector
            for start in range(0, len(texts), step)
            for vector in self._batch(list(texts[start : start + step]), dim)
        ]

    def _batch(self, texts: list[str], dim: int) -> list[Vector]:
        wanted = {"model": self.model, "input": texts, "dimensions": dim}
        body = json.dumps({**wanted, "encoding_format": "float"}).encode()
        answer = self._ask(body)
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or len(items) != len(texts):
            raise self._strange("another number of vectors than of texts")
        placed: dict[int, Vector] = {}
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                raise self._strange("something that is no vector")
            index = item.get("index", place)
            if not isinstance(index, int):
                raise self._strange("a vector that belongs to no text")
            placed[index] = checked(item.get("embedding"), dim, self.model)
        if set(placed) != set(range(len(texts))):
            raise self._strange("vectors that belong to no text")
        return [placed[place] for place in range(len(texts))]

    def _ask(self, body: bytes) -> Any:
        """Ask until there is an answer, or patience ends."""
        patience = self._patience
        deadline = self._clock.ticks_ns() + patience.deadline_ms * _MS
        pause_ms = patience.backoff_ms
        for attempt in range(1, patience.attempts + 1):
            left_ms = (deadline - self._clock.ticks_ns()) // _MS
            timeout_s = max(1, min(patience.timeout_ms, left_ms)) / 1000
            problem, hint_ms = self._try(body, timeout_s)
            if not isinstance(problem, GraphError):
                return problem
            left_ms = (deadline - self._clock.ticks_ns()) // _MS
            wait_ms = max(pause_ms, hint_ms or 0)
            if hint_ms is None or attempt == patience.attempts or wait_ms >= left_ms:
                problem.details["attempts"] = attempt
                raise problem
            self._wait(wait_ms / 1000)
            pause_ms *= 2
        raise AssertionError("the last attempt returns or raises")

    def _try(self, body: bytes, timeout_s: float) -> tuple[Any, int | None]:
        """The answer, or an error and, if asking again may help, after how many milliseconds."""
        try:
            status, content, after = self._send(self._url, self._headers, body, timeout_s)
        except (OSError, http.client.HTTPException) as failure:
            text = f"the embedding provider does not answer: {type(failure).__name__}: {failure}"
            return Unavailable(Code.UNAVAILABLE, text, model=self.model), 0
        if status != 200:
            return self._refusal(status, content, after)
        try:
            return json.loads(content), None
        except ValueError:
            return self._strange("an answer that is no JSON"), 0

    def _refusal(
        self, status: int, content: bytes, after: str | None
    ) -> tuple[GraphError, int | None]:
        shown = content[:_SHOWN].decode("utf-8", "replace")
        text = f"the embedding provider answered {status}: {shown}"
        if status in _RETRIED:
            seconds = int(after) if after and after.isascii() and after.isdigit() else 0
            error = Unavailable(Code.UNAVAILABLE, text, model=self.model, status=status)
            return error, seconds * 1000
        if status in _REFUSED:
            return Unauthenticated(Code.UNAUTHENTICATED, text, status=status), None
        return InvalidInput(Code.INPUT_INVALID, text, model=self.model, status=status), None

    def _strange(self, what: str) -> Unavailable:
        text = f"the embedding provider gave {what}"
        return Unavailable(Code.UNAVAILABLE, text, model=self.model)


def _header(value: str) -> str:
    """A value that cannot become two headers."""
    if not value.isprintable() or not value.isascii():
        raise InvalidInput(Code.SETTINGS_INVALID, "the API key has characters that no key has")
    return value


class _StayPut(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key is for the server that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _send(
    url: str, headers: dict[str, str], body: bytes, timeout_s: float
) -> tuple[int, bytes, str | None]:
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    opener = urllib.request.build_opener(_StayPut)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return answer.status, answer.read(_BODY_MAX), None
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read(_SHOWN), refusal.headers.get("Retry-After")
