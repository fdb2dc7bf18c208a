"""Embeddings over HTTP: requests in batches, asked again with patience, answers checked."""

from __future__ import annotations

import contextvars
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from omnigraph.embed.provider import Purpose, Vector, checked, normalized
from omnigraph.embed.refused import refused_text
from omnigraph.embed.wire import MalformedAnswer, OpenAiFormat, WireFormat
from omnigraph.errors import Code, GraphError, InvalidInput, Unauthenticated, Unavailable
from omnigraph.runtime import cancellation
from omnigraph.runtime.clock import Clock, SystemClock

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED: Final = frozenset({401, 403})
# What servers answer when they do not like a text.
_DISLIKED: Final = frozenset({400, 413, 422})
_BODY_BYTES_MAX: Final = 256 << 20
_SHOWN_CHARS_MAX: Final = 300
# More than is shown: what is cut off there cannot be half of a key.
_REFUSAL_BYTES_MAX: Final = 1 << 16
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPolicy:
    """The timeouts and retries of requests to a provider."""

    timeout_ms: int = 30_000  # one request
    deadline_ms: int = 60_000  # all attempts at one batch
    attempts: int = 4
    backoff_ms: int = 200  # doubled after each attempt
    batch: int = 256  # texts in one request
    concurrency: int = 4  # requests at the same time


class Transport(Protocol):
    """Sends one request. A test brings its own."""

    def __call__(
        self, url: str, headers: dict[str, str], body: bytes, timeout_s: float
    ) -> tuple[int, bytes, str | None]:
        """The status, the body and the `Retry-After` of the answer; OSError when there is none."""
        ...


class HttpEmbedder:
    """Requests vectors from a server, and checks its answers. Thread-safe and picklable."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        wire: WireFormat | None = None,
        patience: RequestPolicy | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Ask the server at `base_url` (for instance `https://api.openai.com/v1`)."""
        self.model = model
        self._base_url = _address(base_url)
        self._api_key = None if not api_key else _header(api_key)
        self._wire = wire or OpenAiFormat()
        self._patience = patience or RequestPolicy()
        self._connect(clock, transport, wait)

    def _connect(
        self,
        clock: Clock | None = None,
        transport: Transport | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._url = self._base_url + self._wire.path(self.model)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key is not None:
            self._headers |= self._wire.headers(self._api_key)
        self._clock = clock or SystemClock()
        self._send = transport or _send
        self._wait = wait or threading.Event().wait
        # However many callers there are, the server sees so many requests at a time.
        self._slots = threading.BoundedSemaphore(self._patience.concurrency)

    def __getstate__(self) -> tuple[str, str, str | None, WireFormat, RequestPolicy]:
        return self.model, self._base_url, self._api_key, self._wire, self._patience

    def __setstate__(self, state: tuple[str, str, str | None, WireFormat, RequestPolicy]) -> None:
        self.model, self._base_url, self._api_key, self._wire, self._patience = state
        self._connect()

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        """A vector for each text, some hundred texts a request, some requests at a time."""
        step = min(self._patience.batch, self._wire.batch_max)
        starts = range(0, len(texts), step)

        def ask(start: int) -> list[Vector]:
            return self._divided(list(texts[start : start + step]), start, dim, purpose)

        width = min(len(starts), self._patience.concurrency)
        if width <= 1:
            return [vector for start in starts for vector in ask(start)]
        pool = ThreadPoolExecutor(width, "omnigraph-embed")
        try:
            running = [pool.submit(contextvars.copy_context().run, ask, start) for start in starts]
            return [vector for future in running for vector in future.result()]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _divided(self, texts: list[str], start: int, dim: int, purpose: Purpose) -> list[Vector]:
        """The vectors of a batch; if it is refused, by halves, so that the text to blame is known.

        `start` is the position of the first text among those that were given.
        """
        try:
            return self._batch(texts, dim, purpose)
        except InvalidInput as problem:
            if problem.details.get("status") not in _DISLIKED:
                raise
            if len(texts) == 1:
                raise refused_text(problem, texts[0], start) from None
        half = len(texts) // 2
        first = self._divided(texts[:half], start, dim, purpose)
        return first + self._divided(texts[half:], start + half, dim, purpose)

    def _batch(self, texts: list[str], dim: int, purpose: Purpose) -> list[Vector]:
        body = json.dumps(self._wire.body(self.model, texts, dim, purpose)).encode()
        with self._slots:
            cancellation.check()
            answer = self._ask(body)
        try:
            found = self._wire.vectors(answer, len(texts))
        except MalformedAnswer as problem:
            raise self._strange(str(problem)) from None
        vectors = [checked(each, dim, self.model) for each in found]
        return vectors if self._wire.is_normalized else [normalized(each) for each in vectors]

    def _ask(self, body: bytes) -> Any:
        """Ask until there is an answer, or patience ends."""
        patience = self._patience
        deadline = self._clock.ticks_ns() + patience.deadline_ms * _NS_PER_MS
        pause_ms = patience.backoff_ms
        for attempt in range(1, patience.attempts + 1):
            left_ms = (deadline - self._clock.ticks_ns()) // _NS_PER_MS
            timeout_s = max(1, min(patience.timeout_ms, left_ms)) / 1000
            problem, hint_ms = self._try(body, timeout_s)
            if not isinstance(problem, GraphError):
                return problem
            left_ms = (deadline - self._clock.ticks_ns()) // _NS_PER_MS
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
            reason = self._without_key(f"{type(failure).__name__}: {failure}")
            text = f"the embedding provider does not answer: {reason}"
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
        shown = self._without_key(content.decode("utf-8", "replace"))[:_SHOWN_CHARS_MAX]
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

    def _without_key(self, text: str) -> str:
        """A text from a server, without the key that it may repeat."""
        return text if self._api_key is None else text.replace(self._api_key, "***")


def _address(base_url: str) -> str:
    """The address of a server, checked; the error does not show a password."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https"):
        message = f"the address of an embedding provider is http or https, not {parts.scheme!r}"
        raise InvalidInput(Code.SETTINGS_INVALID, message)
    if parts.username is not None or parts.password is not None or parts.query:
        message = "the address of an embedding provider has no user, password or query in it"
        raise InvalidInput(Code.SETTINGS_INVALID, message)
    return base_url.rstrip("/")


def _header(value: str) -> str:
    """A value that cannot become two headers."""
    if not value.isprintable() or not value.isascii():
        raise InvalidInput(Code.SETTINGS_INVALID, "the API key has characters that no key has")
    return value


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key is for the server that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _send(
    url: str, headers: dict[str, str], body: bytes, timeout_s: float
) -> tuple[int, bytes, str | None]:
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return answer.status, answer.read(_BODY_BYTES_MAX), None
    except urllib.error.HTTPError as refusal:
        with refusal:
            return (
                refusal.code,
                refusal.read(_REFUSAL_BYTES_MAX),
                refusal.headers.get("Retry-After"),
            )
