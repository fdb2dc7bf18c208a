"""An endpoint: takes requests from the loop to the threads that call graphs, and answers back.

Every route takes the same steps: authentication, admission, the path and the query string, the
body, the work. The body of a request that is refused is not read.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec

from omnigraph.errors import Busy, Cancelled, Code, GraphError, Internal, InvalidInput
from omnigraph.policy.authorization import Permission
from omnigraph.server.admission import InFlight
from omnigraph.server.auth import ANONYMOUS
from omnigraph.server.bulk import JSON
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.encoding import encode
from omnigraph.server.exchange import Exchange, Headers, Send, StreamedAnswer, WholeAnswer
from omnigraph.server.failures import HttpFailure, body_of, protocol_body, status_of
from omnigraph.server.routes import ROUTES, Route
from omnigraph.server.state import Pool, Server
from omnigraph.server.streams import UNCOUNTED, Receive, Sink, Upload, body_limit
from omnigraph.server.tracing import is_traced, traced

logger = logging.getLogger("omnigraph.server")

Scope = MutableMapping[str, Any]

CLOSE: Final = (b"connection", b"close")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_API_HEADER: Final = "omnigraph-http-api"
_API_VERSION: Final = re.compile(r"[!-~][ -~]{0,63}")
_ENVELOPE_BYTES_MAX: Final = 32 << 20
# The name under which a request waits that was let in, and could not be answered at once.
_BEGUN: Final = "omnigraph.begun"


class Endpoint:
    """Answers the requests of one route."""

    def __init__(self, server: Server, route: Route) -> None:
        """Answer by the handler of a route."""
        self.server = server
        self.route = route
        self._nothing = _checked(functools.partial(msgspec.convert, {}, route.terms), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        exchange = scope.pop(_BEGUN, None) or self._exchange(scope)
        exchange.receive, exchange.send = receive, send
        failure: Exception | None = None
        found: WholeAnswer | StreamedAnswer
        with traced(self.route, exchange.headers) as noted:
            try:
                found = await self._answer(exchange)
            except Exception as error:  # noqa: BLE001
                failure, found = error, failed(self.server, error, exchange.request_id)
            noted(found.status)
        extra = self._extra(exchange)
        if failure is not None and not exchange.is_read and not await exchange.drained():
            extra.append(CLOSE)
        self._note(exchange, found.status, failure)
        await exchange.answer(found, extra)

    def at_once(self, scope: Scope, data: bytes) -> tuple[int, Headers, bytes] | None:
        """The answer of a request that is there as a whole; None if it could take long.

        Then the request is begun, and answering it later goes on after the checks.
        """
        if is_traced():
            return None
        exchange = self._exchange(scope)
        failure: Exception | None = None
        found: WholeAnswer | None
        try:
            found = self._answer_at_once(exchange, data)
        except Exception as error:  # noqa: BLE001
            failure, found = error, failed(self.server, error, exchange.request_id)
        if found is None:
            scope[_BEGUN] = exchange
            return None
        self._note(exchange, found.status, failure)
        return found.status, exchange.head(found, self._extra(exchange)), found.body

    def _exchange(self, scope: Scope) -> Exchange:
        exchange = Exchange(scope, self.server.clock.ticks_ns())
        given = exchange.headers.get("x-request-id")
        is_fit = given is not None and _REQUEST_ID.fullmatch(given)
        exchange.request_id = given if given and is_fit else self.server.ids.new()
        return exchange

    def _extra(self, exchange: Exchange) -> Headers:
        extra: Headers = []
        version = exchange.headers.get(_API_HEADER)
        if version is not None and _API_VERSION.fullmatch(version):
            extra.append((_API_HEADER.encode(), version.encode()))
        if self.route.successor is not None:
            extra += _deprecated(self.route.successor, exchange.path)
        return extra

    def _note(self, exchange: Exchange, status: int, failure: Exception | None) -> None:
        """Count an answer, and write a line about it."""
        took = self.server.clock.ticks_ns() - exchange.begin
        self.server.metrics.count(self.route.name, status, took)
        if self.server.log is not None:
            self.server.log(_line(self.route, exchange, status, took, failure))

    async def _answer(self, exchange: Exchange) -> WholeAnswer | StreamedAnswer:
        server, route = self.server, self.route
        call = exchange.call
        if call is None:
            values = exchange.values(b"authorization") if route.secured else []
            actor = await server.authenticator.actor(values) if route.secured else ANONYMOUS
            call = self._admit(exchange, actor)
        held = self._held(call.actor)
        with _places(server, route, call.actor):
            try:
                if route.body == "stream":
                    return await _streaming(server, route, exchange, call, held)
                bounds = server.config.budgets
                most, seconds = bounds.body_bytes, bounds.body_idle_seconds
                data = await exchange.body("body_bytes", most, seconds, held)
                self._decode(call, data)
                return await _run(server, route, exchange, call)
            finally:
                held.release()

    def _answer_at_once(self, exchange: Exchange, data: bytes) -> WholeAnswer | None:
        server, route = self.server, self.route
        actor: str | None = ANONYMOUS
        if route.secured:
            actor = server.authenticator.known(exchange.values(b"authorization"))
        if actor is None or route.at_once is None:
            return None
        call = exchange.call = self._admit(exchange, actor)
        # Nothing else of the actor goes on meanwhile on the loop, so nothing is held.
        exchange.taken(data, "body_bytes", server.config.budgets.body_bytes, UNCOUNTED)
        self._decode(call, data)
        reply = route.at_once(call)
        return None if reply is None else _whole(server, reply)

    def _admit(self, exchange: Exchange, actor: str) -> RouteCall:
        """Admit a request: its actor is within the budgets, and there is such a graph."""
        server = self.server
        exchange.actor = actor
        server.admission.request(actor)
        exchange.check_headers()
        call = RouteCall(
            server=server,
            actor=actor,
            method=exchange.scope["method"],
            path=exchange.path,
            headers=exchange.headers,
            terms=self._terms(exchange),
        )
        if "graph_id" in exchange.path:
            server.graph(exchange.path["graph_id"])
        return call

    def _held(self, actor: str) -> InFlight:
        most = self.server.config.budgets.body_bytes_per_actor
        return self.server.admission.bytes(actor, "body_bytes_per_actor", most)

    def _decode(self, call: RouteCall, data: bytes) -> None:
        route = self.route
        self.server.metrics.bytes_in += len(data)
        if route.input is None:
            if data and route.body == "none" and call.method == "POST" and data.strip() != b"{}":
                raise InvalidInput(Code.INPUT_INVALID, "this route takes no body")
            return
        if not data and route.body == "optional":
            return
        call.body = decoded_body(data, route.input)

    def _terms(self, exchange: Exchange) -> Any:
        query = exchange.scope["query_string"]
        # Most requests have none, and most terms need none.
        if not query and self._nothing is not None:
            return self._nothing
        lists = _LISTS[self.route.name]
        given: dict[str, Any] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name in lists:
                given.setdefault(name, []).extend(value.split(","))
            elif name in given:
                raise InvalidInput(Code.INPUT_INVALID, f"the parameter {name!r:.80} is there twice")
            else:
                given[name] = value
        return _checked(functools.partial(msgspec.convert, given, self.route.terms, strict=False))


def _line(
    route: Route, exchange: Exchange, status: int, took: int, failure: Exception | None
) -> bytes:
    """A line of JSON about a request; texts of queries and values are not in it."""
    line = {
        "request_id": exchange.request_id,
        "route": route.name,
        "graph": exchange.path.get("graph_id"),
        "actor": exchange.actor,
        "status": status,
        "milliseconds": round(took / 1e6, 3),
    }
    if failure is not None:
        code = failure.code.value if isinstance(failure, GraphError) else type(failure).__name__
        line["failure"] = code
    return encode(line) + b"\n"


def _deprecated(successor: str, path: Mapping[str, str]) -> Headers:
    """The headers of every answer of a deprecated route: they name the route that replaces it."""
    address = quote(successor.format(**path))
    return [(b"deprecation", b"true"), (b"link", f'<{address}>; rel="successor-version"'.encode())]


def failed(server: Server, error: Exception, request_id: str) -> WholeAnswer:
    """The answer about a failure; what clients need not know is written to the log only."""
    headers: dict[str, str] = {}
    if not isinstance(error, GraphError | HttpFailure):
        logger.error("request %s failed", request_id, exc_info=error)
        error = Internal(Code.INTERNAL, type(error).__name__)
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


def _json(body: Any, status: int, headers: Mapping[str, str]) -> WholeAnswer:
    return WholeAnswer(status=status, body=encode(body), media=JSON, headers=_raw(headers))


def _raw(headers: Mapping[str, str]) -> Headers:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


# -- what came in ----------------------------------------------------------------------------------


def _lists(terms: type[Any]) -> frozenset[str]:
    """The names of parameters that may be there several times."""
    fields = msgspec.structs.fields(terms)
    return frozenset(item.encode_name for item in fields if "list" in str(item.type))


_LISTS: Final = {route.name: _lists(route.terms) for route in ROUTES}
_MISSING: Final = object()


def _checked(decode: Callable[[], Any], otherwise: Any = _MISSING) -> Any:
    try:
        return decode()
    except RecursionError:
        raise InvalidInput(Code.INPUT_INVALID, "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if otherwise is not _MISSING:
            return otherwise
        raise InvalidInput(Code.INPUT_INVALID, str(error)) from None


def _places(server: Server, route: Route, actor: str) -> AbstractContextManager[None]:
    """The places that a request takes among those of its actor."""
    bounds = server.config.budgets
    if route.body == "stream":
        return server.admission.holding(actor, "loads_per_actor", bounds.loads_per_actor)
    if route.is_write:
        return server.admission.holding(actor, "writes_per_actor", bounds.writes_per_actor)
    return nullcontext()


def decoded_body(data: bytes, kind: type[Any]) -> Any:
    """A body of JSON as the shape that its route takes."""
    return _checked(functools.partial(_decode, data, kind))


def _decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        older = getattr(kind, "older_names", {})
        given = msgspec.json.decode(data) if older else None
        if not isinstance(given, dict) or not older.keys() & given.keys():
            raise
        renamed = {older.get(name, name): value for name, value in given.items()}
        if len(renamed) < len(given):
            raise
        return msgspec.convert(renamed, kind)


async def _streaming(
    server: Server, route: Route, exchange: Exchange, call: RouteCall, held: InFlight
) -> WholeAnswer | StreamedAnswer:
    """Run a load: its body is read while it arrives."""
    bounds = server.config.budgets
    graph = call.graph
    branch = getattr(call.terms, "branch", None) or "main"
    server.authorise(call.actor, Permission.CHANGE, branch=branch)
    del graph
    if call.headers.get("content-type", JSON).partition(";")[0].strip().lower() == JSON:
        if route.input is None:
            raise HttpFailure(415, "this route takes application/x-ndjson")
        most = min(bounds.load_bytes, _ENVELOPE_BYTES_MAX)
        data = await exchange.body("load_bytes", most, bounds.body_idle_seconds, held)
        server.metrics.bytes_in += len(data)
        call.body = decoded_body(data, route.input)
        return await _run(server, route, exchange, call)
    said = call.headers.get("content-length", "")
    if said.isdigit() and int(said) > bounds.load_bytes:
        raise body_limit("load_bytes", bounds.load_bytes, int(said))
    upload = Upload(bounds.load_bytes, "load_bytes", bounds.body_idle_seconds, held)
    call.upload = upload
    most = bounds.spool_bytes_per_actor
    spooled = server.admission.bytes(call.actor, "spool_bytes_per_actor", most)
    call.spooled = spooled
    assert exchange.receive is not None
    filling = asyncio.create_task(upload.fill(exchange.receive))
    try:
        reply = await _on_thread(server, route.pool, route.handler, call)
        exchange.is_read = True
    finally:
        spooled.release()
        upload.abandon()
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling
        server.metrics.bytes_in += upload.received
    assert isinstance(reply, Reply)
    return _whole(server, reply)


# -- the work --------------------------------------------------------------------------------------


async def _on_thread(
    server: Server, pool: Pool, handler: Callable[[RouteCall], Reply | Streamed], call: RouteCall
) -> Reply | Streamed:
    server.enter(pool)
    try:
        return await server.pools[pool].run(handler, call)
    finally:
        server.leave(pool)


async def _run(
    server: Server, route: Route, exchange: Exchange, call: RouteCall
) -> WholeAnswer | StreamedAnswer:
    """Run a handler; a client that leaves cancels what only reads."""
    if route.at_once is not None:
        quick = route.at_once(call)
        if quick is not None:
            return _whole(server, quick)
    if route.is_write:
        reply = await _on_thread(server, route.pool, route.handler, call)
    else:
        with exchange.watched(call.cancel.cancel):
            reply = await _on_thread(server, route.pool, route.handler, call)
    if isinstance(reply, Streamed):
        # A client may take its time: reads do not wait for that.
        pool: Pool = "bulk" if route.pool == "read" else route.pool
        return await _stream(server, pool, exchange, reply, call)
    return _whole(server, reply)


def _whole(server: Server, reply: Reply) -> WholeAnswer:
    body = reply.body if isinstance(reply.body, bytes) else encode(reply.body)
    server.metrics.bytes_out += len(body)
    headers = _raw(reply.headers) if reply.headers else []
    return WholeAnswer(status=reply.status, body=body, media=reply.media, headers=headers)


async def _stream(
    server: Server, pool: Pool, exchange: Exchange, reply: Streamed, call: RouteCall
) -> StreamedAnswer:
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

    def leave() -> None:
        call.cancel.cancel()
        sink.leave()

    work = asyncio.ensure_future(_on_thread(server, pool, write, call))
    # The sink reports its failure.
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    with exchange.watched(leave):
        first = await sink.next()

    async def pieces() -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            server.metrics.bytes_out += len(piece)
            yield piece
            piece = await sink.next()

    headers = {name: value for name, value in reply.headers.items() if not name.startswith(":")}
    return StreamedAnswer(
        status=int(reply.headers.get(":status", 200)),
        pieces=pieces(),
        media=reply.media,
        headers=_raw(headers),
        leave=leave,
    )
