"""A proxy in front of an S3 server that keeps chosen requests back and delivers them later.

A request that is kept back gets no answer: its connection breaks, or stays silent until the client
gives up or dies. `deliver` sends it to the server afterwards, as a network or a busy server does
that applies a request when nobody waits for it any more.

Clients use the address of the proxy as their endpoint. The headers are passed on as they came, the
host among them, so signatures stay valid.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from tests import tally

PATIENCE_S = 60
CHANGING = frozenset({"PUT", "POST", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came."""

    method: str
    target: str  # path and query, as they were sent
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The path, readable."""
        return unquote(urlsplit(self.target).path)


Choice: TypeAlias = Callable[[Request], bool]


def put_of(*parts: str) -> Choice:
    """Choose puts of objects whose paths contain all of these texts."""

    def choose(request: Request) -> bool:
        return request.method == "PUT" and all(part in request.path for part in parts)

    return choose


def nth_change(number: int) -> Choice:
    """Choose the n-th request that changes something."""
    left = [number]

    def choose(request: Request) -> bool:
        if request.method not in CHANGING:
            return False
        left[0] -= 1
        return left[0] == 0

    return choose


@dataclass(slots=True)
class KeptBack:
    """The requests that are kept back."""

    choose: Choice
    silent: bool  # leave the connection open, rather than break it
    upstream: str
    requests: list[Request] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Wait until a request is kept back."""
        assert self.came.wait(PATIENCE_S), "no such request has come"

    def deliver(self) -> list[int]:
        """Send what was kept back to the server; return the statuses that it answers."""
        with closing(HTTPConnection(self.upstream, timeout=PATIENCE_S)) as server:
            found = []
            for request in self.requests:
                answer = _ask(server, request)
                answer.read()
                found.append(answer.status)
            tally.count("requests that S3 got late", len(found))
            return found


class SlowServer:
    """The proxy, as seen from a test."""

    def __init__(self, endpoint: str) -> None:
        """Stand in front of a server."""
        self._upstream = urlsplit(endpoint).netloc
        self._lock = threading.Lock()
        self._kept: KeptBack | None = None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.front = self

    @property
    def endpoint(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def keeping_back(self, choose: Choice, *, silent: bool = False) -> Iterator[KeptBack]:
        """Keep the chosen requests back that come during a block."""
        kept = KeptBack(choose, silent, self._upstream)
        with self._lock:
            self._kept = kept
        try:
            yield kept
        finally:
            with self._lock:
                self._kept = None

    def keeps(self, request: Request) -> KeptBack | None:
        """Keep a request back, if it is one of the chosen."""
        with self._lock:
            kept = self._kept
            if kept is None or not kept.choose(request):
                return None
            kept.requests.append(request)
        kept.came.set()
        return kept

    def serve(self) -> None:
        """Serve until `stop`."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """Stop, and wait for nobody."""
        self._server.shutdown()
        self._server.server_close()

    def connect(self) -> HTTPConnection:
        """A connection to the server itself."""
        return HTTPConnection(self._upstream, timeout=PATIENCE_S)


@contextmanager
def slow_server(endpoint: str) -> Iterator[SlowServer]:
    """A proxy in front of a server, for the length of a block."""
    front = SlowServer(endpoint)
    thread = threading.Thread(target=front.serve, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.stop()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    front: SlowServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients break their connections here, that is what it is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle(self) -> None:
        with closing(self.server.front.connect()) as self.upstream, suppress(ConnectionError):
            super().handle()

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            method=self.command,
            target=self.path,
            headers=tuple(self.headers.items()),
            body=self.rfile.read(length),
        )
        kept = self.server.front.keeps(request)
        if kept is None:
            self._answer(request, _ask(self.upstream, request))
            return
        if kept.silent:
            with suppress(ConnectionError):
                self.connection.recv(1)  # nothing comes but the end
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _answer(self, request: Request, answer: HTTPResponse) -> None:
        body = answer.read()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                self.send_header(name, value)
        told = answer.getheader("Content-Length") if request.method == "HEAD" else None
        self.send_header("Content-Length", told or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _ask(server: HTTPConnection, request: Request) -> HTTPResponse:
    server.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers:
        server.putheader(name, value)
    server.endheaders(request.body)
    return server.getresponse()
