"""The application: takes requests from the loop to the threads of the engine, and answers back.

The order is the same for every route: who asks, whether too much is asked for, what the path and
the query string mean, the body, the work. A body is not read for somebody who is not let in.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from omnigraph.errors import (
    Busy,
    Cancelled,
    Code,
    GraphError,
    Internal,
    InvalidInput,
    LimitExceeded,
)
from omnigraph.policy.door import Permission
from omnigraph.server import openapi
from omnigraph.server.auth import ANONYMOUS
from omnigraph.server.bulk import JSON, too_large
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.encoding import encode
from omnigraph.server.failures import HttpFailure, body_of, protocol_body, status_of
from omnigraph.server.routes import ROUTES, Route
from omnigraph.server.state import Pool, Server
from omnigraph.server.streams import Sink, Upload
from omnigraph.server.tracing import traced

logger = logging.getLogger("omnigraph.server")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_API_HEADER: Final = "omnigraph-http-api"
_DRAIN_BYTES: Final = 8 << 20
_DRAIN_SECONDS: Final = 2.0
_SECURITY: Final = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(server: Server) -> Starlette:
    """The application of a server."""
    document = openapi.encoded(openapi.document(is_open=server.config.is_open))

    async def describe(request: Request) -> Response:
        return Response(document, media_type=JSON)

    async def unknown(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        text = "there is no such address" if status == 404 else "the address has no such method"
        headers = dict(getattr(error, "headers", None) or {})
        return _failed(server, HttpFailure(status, text, headers=headers), server.ids.new())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.is_ending = True
        await asyncio.get_running_loop().run_in_executor(None, server.close)

    routes = [StarletteRoute("/openapi.json", describe, methods=["GET"])]
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)
    for path, found in by_path.items():
        routes += [
            StarletteRoute(path, _endpoint(server, route), methods=[route.method])
            for route in found
        ]
    handlers: Any = {404: unknown, 405: unknown}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    # A path with a slash at its end is another one, and nobody is sent elsewhere.
    app.router.redirect_slashes = False
    return app


def _endpoint(server: Server, route: Route) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        begin = server.clock.ticks_ns()
        given = request.headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else server.ids.new()
        failure: BaseException | None = None
        try:
            with traced(route.name, request.headers):
                response = await _answer(server, route, request)
        except (GraphError, HttpFailure) as error:
            failure, response = error, _failed(server, error, request_id)
        except ClientDisconnect as error:
            failure, response = error, Response(status_code=499)
        except Exception as error:
            logger.exception("request %s failed", request_id)
            hidden = Internal(Code.INTERNAL, type(error).__name__)
            failure, response = error, _failed(server, hidden, request_id)
        is_read = getattr(request.state, "is_read", False)
        if failure is not None and not is_read and not await _drained(request):
            response.headers["connection"] = "close"
        response.headers["x-request-id"] = request_id
        for name, value in _SECURITY.items():
            response.headers.setdefault(name, value)
        if (version := request.headers.get(_API_HEADER)) is not None:
            response.headers[_API_HEADER] = version[:64]
        took = server.clock.ticks_ns() - begin
        server.metrics.count(route.name, response.status_code, took)
        _log(route, request, response, request_id, took, failure)
        return response

    return endpoint


async def _drained(request: Request) -> bool:
    """Take the rest of a body that nobody wants, so that the client hears the answer.

    Not for long: False if there is more of it, and the connection has to be closed.
    """
    taken = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while taken < _DRAIN_BYTES:
                message = await request.receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return True
                taken += len(message.get("body", b""))
    return False


def _log(
    route: Route,
    request: Request,
    response: Response,
    request_id: str,
    took: int,
    failure: BaseException | None,
) -> None:
    """Write one line of JSON about a request; texts of queries and values are not in it."""
    if not logger.isEnabledFor(logging.INFO):
        return
    line = {
        "request_id": request_id,
        "route": route.name,
        "graph": request.path_params.get("graph_id"),
        "actor": getattr(request.state, "actor", None),
        "status": response.status_code,
        "milliseconds": round(took / 1e6, 3),
    }
    if failure is not None:
        code = failure.code.value if isinstance(failure, GraphError) else type(failure).__name__
        line["failure"] = code
    logger.info("%s", encode(line).decode())


def _failed(server: Server, error: GraphError | HttpFailure, request_id: str) -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, HttpFailure):
        headers = error.fields.pop("headers", {})
        return _json(protocol_body(error, request_id), error.status, headers)
    status = status_of(error)
    if isinstance(error, Busy):
        headers["retry-after"] = str(error.details.get("retry_after", 1))
        server.metrics.refused += 1
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 500:
        logger.error("request %s: %s: %s", request_id, error.code, error)
    if isinstance(error, Cancelled):
        server.metrics.cancelled += 1
    return _json(body_of(error, request_id), status, headers)


def _json(body: Any, status: int, headers: Mapping[str, str]) -> Response:
    return Response(encode(body), status, dict(headers), JSON)


# -- one request -----------------------------------------------------------------------------------


async def _answer(server: Server, route: Route, request: Request) -> Response:
    actor = ANONYMOUS
    if route.secured:
        actor = server.authenticator.actor(request.headers.getlist("authorization"))
    request.state.actor = actor
    server.admission.request(actor)
    call = RouteCall(
        server=server,
        actor=actor,
        method=request.method,
        path=request.path_params,
        headers=_headers(request),
        terms=_terms(route, request),
    )
    if "graph_id" in request.path_params:
        server.graph(request.path_params["graph_id"])
    with _places(server, route, actor):
        if route.body == "stream":
            return await _streaming(server, route, request, call)
        await _read_body(server, route, request, call)
        return await _run(server, route, request, call)


def _headers(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        # Of two precondition headers nobody knows which one is meant.
        if name in found and name.startswith(("omnigraph-", "idempotency-", "content-")):
            raise InvalidInput(Code.INPUT_INVALID, f"the header {name} is there twice")
        found[name] = value
    return found


def _lists(terms: type[Any]) -> frozenset[str]:
    """The names of parameters that may be there several times."""
    fields = msgspec.structs.fields(terms)
    return frozenset(item.encode_name for item in fields if "list" in str(item.type))


_LISTS: Final = {route.name: _lists(route.terms) for route in ROUTES}


def _terms(route: Route, request: Request) -> Any:
    if not request.scope["query_string"]:
        # Most requests have none, and most terms need none.
        return _checked(functools.partial(msgspec.convert, {}, route.terms))
    lists = _LISTS[route.name]
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            given.setdefault(name, []).extend(value.split(","))
        elif name in given:
            raise InvalidInput(Code.INPUT_INVALID, f"the parameter {name!r:.80} is there twice")
        else:
            given[name] = value
    return _checked(functools.partial(msgspec.convert, given, route.terms, strict=False))


def _checked(decode: Callable[[], Any]) -> Any:
    try:
        return decode()
    except RecursionError:
        raise InvalidInput(Code.INPUT_INVALID, "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(Code.INPUT_INVALID, str(error)) from None


def _places(server: Server, route: Route, actor: str) -> AbstractContextManager[None]:
    """The places that a request takes among those of its actor."""
    bounds = server.config.budgets
    if route.body == "stream":
        return server.admission.holding(actor, "loads_per_actor", bounds.loads_per_actor)
    if route.is_write:
        return server.admission.holding(actor, "writes_per_actor", bounds.writes_per_actor)
    return nullcontext()


async def _read_body(server: Server, route: Route, request: Request, call: RouteCall) -> None:
    most = server.config.budgets.body_bytes
    data = await _whole_body(server, request, most)
    request.state.is_read = True
    if route.input is None:
        if data and route.body == "none" and request.method == "POST" and data.strip() != b"{}":
            raise InvalidInput(Code.INPUT_INVALID, "this route takes no body")
        return
    if not data and route.body == "optional":
        return
    call.body = decoded_body(data, route.input)


def decoded_body(data: bytes, kind: type[Any]) -> Any:
    """A body of JSON as the shape that its route takes."""
    return _checked(functools.partial(msgspec.json.decode, data, type=kind))


async def _whole_body(server: Server, request: Request, most: int) -> bytes:
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said) > most:
        raise too_large("body_bytes", most)
    pieces: list[bytes] = []
    total = 0
    seconds = server.config.budgets.body_idle_seconds
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                total += len(piece)
                if total > most:
                    raise too_large("body_bytes", most)
                pieces.append(piece)
    except TimeoutError:
        text = f"the body did not come within {seconds} seconds"
        raise LimitExceeded(Code.TIMEOUT, text, limit="body_idle_seconds") from None
    server.metrics.bytes_in += total
    return b"".join(pieces)


async def _streaming(server: Server, route: Route, request: Request, call: RouteCall) -> Response:
    """Run a load: its body is read while it arrives."""
    bounds = server.config.budgets
    graph = call.graph
    branch = getattr(call.terms, "branch", None) or "main"
    server.authorise(call.actor, Permission.CHANGE, branch=branch)
    del graph
    if call.headers.get("content-type", JSON).partition(";")[0].strip().lower() == JSON:
        if route.input is None:
            raise HttpFailure(415, "this route takes application/x-ndjson")
        data = await _whole_body(server, request, min(bounds.load_bytes, 32 << 20))
        call.body = decoded_body(data, route.input)
        return await _run(server, route, request, call)
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > bounds.load_bytes:
        raise too_large("load_bytes", bounds.load_bytes)
    upload = Upload(bounds.load_bytes, "load_bytes", bounds.body_idle_seconds)
    call.upload = upload
    filling = asyncio.create_task(upload.fill(request.receive))
    try:
        reply = await _on_thread(server, route.pool, route.handler, call)
        request.state.is_read = True
    finally:
        upload.abandon()
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling
        server.metrics.bytes_in += upload.received
    assert isinstance(reply, Reply)
    return _response(server, reply)


async def _on_thread(
    server: Server, pool: Pool, handler: Callable[[RouteCall], Reply | Streamed], call: RouteCall
) -> Reply | Streamed:
    server.enter(pool)
    try:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(server.pools[pool], context.run, handler, call)
    finally:
        server.leave(pool)


async def _run(server: Server, route: Route, request: Request, call: RouteCall) -> Response:
    """Run a handler; a client that leaves cancels what only reads."""
    work = asyncio.ensure_future(_on_thread(server, route.pool, route.handler, call))
    if route.is_write:
        reply = await work
    else:
        watch = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                call.cancel.cancel()
            reply = await work
        finally:
            watch.cancel()
    if isinstance(reply, Streamed):
        return await _stream(server, route.pool, reply, call)
    return _response(server, reply)


async def _left(request: Request) -> None:
    """Wait until the client leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(server: Server, reply: Reply) -> Response:
    body = reply.body if isinstance(reply.body, bytes) else encode(reply.body)
    server.metrics.bytes_out += len(body)
    response = Response(body, reply.status, media_type=reply.media)
    for name, value in reply.headers.items():
        response.headers[name] = value
    return response


async def _stream(server: Server, pool: Pool, reply: Streamed, call: RouteCall) -> Response:
    """Send what a thread writes; the first bytes decide whether it is an answer or an error."""
    sink = Sink()

    def write(call: RouteCall) -> Reply:
        try:
            reply.write(sink)
        except BaseException as error:
            sink.end(error)
            raise
        sink.end()
        return Reply()

    work = asyncio.ensure_future(_on_thread(server, pool, write, call))
    # Its failure is told by the sink.
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    first = await sink.next()

    async def pieces() -> AsyncIterator[bytes]:
        piece = first
        try:
            while piece is not None:
                server.metrics.bytes_out += len(piece)
                yield piece
                piece = await sink.next()
        finally:
            sink.leave()
            call.cancel.cancel()

    headers = {name: value for name, value in reply.headers.items() if not name.startswith(":")}
    status = int(reply.headers.get(":status", 200))
    return StreamingResponse(pieces(), status, headers, reply.media)
