"""Requests over HTTP/1.1 by the standard library: connections are kept, safe requests repeated."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from omnigraph.errors import (
    CLASS_OF,
    Code,
    Effect,
    GraphError,
    InvalidInput,
    Unavailable,
)
from omnigraph.runtime.clock import Clock, SystemClock

_ATTEMPTS_MAX: Final = 4
_FIRST_WAIT_US: Final = 100_000
_RETRIED: Final = frozenset({429, 503})
_KEPT_CONNECTIONS_MAX: Final = 8
_JOINED_BYTES_MAX: Final = 64 << 10
_CODE_OF: Final = {
    400: Code.INPUT_INVALID,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    408: Code.TIMEOUT,
    409: Code.CONFLICT,
    410: Code.GONE,
    412: Code.PRECONDITION_FAILED,
    413: Code.LIMIT_EXCEEDED,
    415: Code.INPUT_INVALID,
    416: Code.INPUT_INVALID,
    429: Code.BUSY,
    431: Code.LIMIT_EXCEEDED,
    499: Code.CANCELLED,
    503: Code.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer that was read as a whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Unavailable: It is none.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            text = "the server answered with something that is no JSON"
            raise Unavailable(Code.UNAVAILABLE, text) from error


class Connection(http.client.HTTPConnection):
    """A connection that sends headers and a small body in one piece.

    The standard library sends the headers first, and the server is woken up twice.
    """

    _held: list[bytes] | None = None

    def request(self, method: str, url: str, body: Any = None, *more: Any, **terms: Any) -> None:
        """Send a request."""
        if not isinstance(body, bytes) or len(body) > _JOINED_BYTES_MAX:
            super().request(method, url, body, *more, **terms)
            return
        held: list[bytes] = []
        self._held = held
        try:
            super().request(method, url, body, *more, **terms)
        finally:
            self._held = None
        self.send(b"".join(held))

    def send(self, data: Any) -> None:
        """Send data, or hold it back until the request is there as a whole."""
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class SecureConnection(Connection, http.client.HTTPSConnection):
    """The same over TLS."""


class HttpTransport:
    """Sends requests to one server. Thread-safe."""

    def __init__(
        self, url: str, token: str | None, timeout: float, clock: Clock | None = None
    ) -> None:
        """Reach a server.

        Raises:
            InvalidInput: The address cannot be understood.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            text = f"a server is reached by http:// or https://, not by {url!r:.200}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._kept: list[http.client.HTTPConnection] = []
        self._is_closed = False

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._is_closed = True
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        terms: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        is_safe: bool | None = None,
    ) -> HttpAnswer:
        """Send a request and read its answer.

        Args:
            method: The method.
            path: The path, quoted.
            terms: The query string; None and False are left out, lists are repeated.
            body: What becomes JSON, or bytes, or a file that is sent as it is read.
            headers: More headers.
            is_safe: May it be repeated? By default everything that reads, and writes with a key.

        Raises:
            GraphError: As the server says; or `Unavailable` if it cannot be reached.
        """
        named = dict(headers or {})
        if is_safe is None:
            is_safe = method in ("GET", "HEAD") or "idempotency-key" in named
        data = body
        if body is not None and not isinstance(body, bytes) and not hasattr(body, "read"):
            data = json.dumps(body).encode()
            named.setdefault("content-type", "application/json")
        if hasattr(data, "read"):
            is_safe = False
        wait = _FIRST_WAIT_US
        for attempt in range(_ATTEMPTS_MAX):
            last = attempt + 1 == _ATTEMPTS_MAX
            try:
                with self._sent(method, self._address(path, terms), data, named) as response:
                    found = _read(response)
            except Unavailable:
                if not is_safe or last:
                    raise
            else:
                if found.status not in _RETRIED or not is_safe or last:
                    return _checked(found)
            self._clock.wait(wait)
            wait *= 4
        raise AssertionError("the last attempt has returned or raised")

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        terms: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and give its answer to be read piece by piece."""
        named = dict(headers or {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            named["content-type"] = "application/json"
        with self._sent(method, self._address(path, terms), data, named) as response:
            if response.status >= 400:
                _checked(_read(response))
            yield response

    # -- inside ------------------------------------------------------------------------------------

    def _address(self, path: str, terms: Mapping[str, Any] | None) -> str:
        chosen = [
            (name, "true" if value is True else value)
            for name, given in (terms or {}).items()
            for value in (given if isinstance(given, list | tuple) else [given])
            if value is not None and value is not False
        ]
        return f"{self._base}{path}" + (f"?{urlencode(chosen)}" if chosen else "")

    @contextmanager
    def _sent(
        self, method: str, address: str, body: Any, headers: dict[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        if self._is_closed:
            raise InvalidInput(Code.CLOSED, "the connection to the server is closed")
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        is_whole = False
        try:
            response = self._exchange(connection, method, address, body, headers)
            yield response
            is_whole = response.isclosed() and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, method) from error
        finally:
            self._give_back(connection, is_whole)

    def _unreachable(self, error: Exception, method: str) -> Unavailable:
        effect = Effect.NONE if method in ("GET", "HEAD") else Effect.UNKNOWN
        if isinstance(error, ConnectionRefusedError):
            effect = Effect.NONE
        server = self._host if self._port is None else f"{self._host}:{self._port}"
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        text = f"the server {server} cannot be reached: {reason}"
        return Unavailable(Code.UNAVAILABLE, text, effect=effect.value)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        address: str,
        body: Any,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        is_streamed = hasattr(body, "read")
        try:
            connection.request(method, address, body, headers, encode_chunked=is_streamed)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body early says why, before it closes.
            if not is_streamed or connection.sock is None:
                raise
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._kept:
                found = self._kept.pop()
                if not _is_stale(found):
                    return found
                found.close()
        kind = SecureConnection if self._is_secure else Connection
        return kind(self._host, self._port, timeout=self._timeout)

    def _give_back(self, connection: http.client.HTTPConnection, is_whole: bool) -> None:
        with self._lock:
            if is_whole and len(self._kept) < _KEPT_CONNECTIONS_MAX and not self._is_closed:
                self._kept.append(connection)
                return
        connection.close()


def _is_stale(connection: http.client.HTTPConnection) -> bool:
    """True if the server has closed a connection that was kept."""
    if connection.sock is None:
        return True
    connection.sock.settimeout(0)
    try:
        return connection.sock.recv(1) is not None
    except (BlockingIOError, OSError) as error:
        return not isinstance(error, BlockingIOError)
    finally:
        connection.sock.settimeout(connection.timeout)


def _read(response: http.client.HTTPResponse) -> HttpAnswer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return HttpAnswer(status=response.status, headers=headers, body=response.read())


def _checked(answer: HttpAnswer) -> HttpAnswer:
    if answer.status < 400:
        return answer
    raise error_of(answer)


def error_of(answer: HttpAnswer) -> GraphError:
    """The error of an answer, of the same class as for an embedded graph."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    if isinstance(tree := body.get("graph_error"), dict):
        return GraphError.from_json(tree)
    text = str(body.get("error") or f"the server answered with status {answer.status}")
    code = _CODE_OF.get(answer.status, Code.INTERNAL)
    return CLASS_OF[code](code, text)


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(str(text), safe="")
