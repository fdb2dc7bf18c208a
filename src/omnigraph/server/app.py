"""The application: finds the endpoint of a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router, compile_path

from omnigraph.server import openapi
from omnigraph.server.bulk import JSON
from omnigraph.server.endpoint import CLOSE, Endpoint, Scope, failed
from omnigraph.server.exchange import Exchange, Headers, Send, WholeAnswer
from omnigraph.server.failures import HttpFailure
from omnigraph.server.routes import ROUTES
from omnigraph.server.state import Server
from omnigraph.server.streams import Receive

# These are asked for most, so they are looked at first.
_FIRST: Final = ("cluster_query", "cluster_mutate", "cluster_invoke")


def make_app(server: Server) -> Application:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        server.is_ending = True
        await asyncio.get_running_loop().run_in_executor(None, server.close)

    ordered = sorted(ROUTES, key=lambda route: route.name not in _FIRST)
    endpoints = [Endpoint(server, each) for each in ordered]
    routes = [_Path(each.route.path, each, methods=[each.route.method]) for each in endpoints]
    routes.append(_Path("/openapi.json", _Document(server), methods=["GET"]))
    # A path with a slash at its end is another one, and nobody is sent elsewhere.
    found = Application(
        routes, redirect_slashes=False, default=_Unknown(server, 404, {}), lifespan=lifespan
    )
    found.idle_seconds = server.config.budgets.body_idle_seconds
    found.quick = [
        (each.route.method, compile_path(each.route.path)[0], each)
        for each in endpoints
        if each.route.at_once is not None
    ]
    return found


class Application(Router):
    """Finds the endpoint of a request; small requests are answered at once if they can be."""

    quick: list[tuple[str, re.Pattern[str], Endpoint]]
    idle_seconds: float

    def at_once(self, scope: Scope, body: bytes) -> tuple[int, Headers, bytes] | None:
        """The answer of a request that is there as a whole; None if it has to come in later."""
        for method, path, endpoint in self.quick:
            if method == scope["method"] and (found := path.match(scope["path"])):
                scope["path_params"] = found.groupdict()
                return endpoint.at_once(scope, body)
        return None


class _Path(StarletteRoute):
    """A path whose other methods are refused as everything else is refused."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.methods is not None
        app: Any = self.app
        if scope["method"] not in self.methods:
            app = _Unknown(app.server, 405, {"allow": ", ".join(sorted(self.methods))})
        await app(scope, receive, send)


class _Document:
    """Answers with the OpenAPI document."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._body = openapi.encoded(openapi.document(is_open=server.config.is_open))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope)
        exchange.receive, exchange.send = receive, send
        exchange.request_id = self.server.ids.new()
        await exchange.answer(WholeAnswer(status=200, body=self._body, media=JSON), [])


class _Unknown:
    """Refuses unknown addresses and methods."""

    def __init__(self, server: Server, status: int, headers: dict[str, str]) -> None:
        self._server = server
        self._status = status
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope)
        exchange.receive, exchange.send = receive, send
        exchange.request_id = self._server.ids.new()
        missing = "there is no such address"
        text = missing if self._status == 404 else "the address has no such method"
        failure = HttpFailure(self._status, text, headers=self._headers)
        extra = [] if await exchange.drained() else [CLOSE]
        await exchange.answer(failed(self._server, failure, exchange.request_id), extra)
