"""One request and its answer, as the server under the application hands them over (ASGI)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.errors import Cancelled, Code, InvalidInput, LimitExceeded
from omnigraph.server.call import RouteCall
from omnigraph.server.protocol import ARRIVAL, Arrival
from omnigraph.server.streams import Holding, Receive, body_limit

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_DRAIN_BYTES: Final = 8 << 20
_DRAIN_SECONDS: Final = 2.0
# On every answer.
_ALWAYS: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
# Of two of these nobody knows which one is meant.
_ONCE: Final = ("omnigraph-", "idempotency-", "content-")


@dataclass(slots=True, kw_only=True)
class WholeAnswer:
    """An answer that is there as a whole."""

    status: int
    body: bytes
    media: str
    headers: Headers = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class StreamedAnswer:
    """An answer that comes in pieces; `leave` is called when the client has left."""

    status: int
    pieces: AsyncIterator[bytes]
    media: str
    leave: Callable[[], None]
    headers: Headers = field(default_factory=list)


class Exchange:
    """One request, and the way back to its client."""

    __slots__ = (
        *("actor", "begin", "call", "headers", "is_read", "path", "receive", "request_id"),
        *("scope", "send"),
    )

    def __init__(self, scope: MutableMapping[str, Any], begin: int = 0) -> None:
        """Take over a request that came at this moment; the functions that answer it come later."""
        self.scope = scope
        self.begin = begin
        self.receive: Receive | None = None
        self.send: Send | None = None
        # What it asks for, once it is let in.
        self.call: RouteCall | None = None
        self.path: dict[str, str] = scope.get("path_params", {})
        self.actor: str | None = None
        self.request_id = ""
        self.is_read = False
        # The last one wins here; `check_headers` refuses doubles where they matter.
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }

    @property
    def arrival(self) -> Arrival:
        """The progress of the request, and the presence of its client."""
        found: Arrival = self.scope[ARRIVAL]
        return found

    def check_headers(self) -> None:
        """Refuse a header that is there twice and may not be.

        Raises:
            InvalidInput: There is one.
        """
        if len(self.headers) == len(self.scope["headers"]):
            return
        seen: set[str] = set()
        for raw, _ in self.scope["headers"]:
            name = raw.decode("latin-1")
            if name in seen and name.startswith(_ONCE):
                raise InvalidInput(Code.INPUT_INVALID, f"the header {name} is there twice")
            seen.add(name)

    def values(self, name: bytes) -> list[str]:
        """All values of a header."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    # -- the body ----------------------------------------------------------------------------------

    async def body(self, resource: str, most: int, seconds: float, held: Holding) -> bytes:
        """The whole body, counted as held.

        Raises:
            LimitExceeded: It is too large, or does not come in time.
            Busy: The actor has too much in flight.
            Cancelled: The client left.
        """
        said = self.headers.get("content-length", "0")
        if said.isdigit() and int(said) > most:
            raise body_limit(resource, most, int(said))
        if self.arrival.is_whole:
            data, _ = await self._piece()
            return self.taken(data, resource, most, held)
        pieces: list[bytes] = []
        total, has_more = 0, True
        try:
            async with asyncio.timeout(seconds):
                while has_more:
                    data, has_more = await self._piece()
                    total += len(data)
                    if total > most:
                        raise body_limit(resource, most, total)
                    held.take(len(data))
                    pieces.append(data)
        except TimeoutError:
            text = f"the body did not come within {seconds} seconds"
            raise LimitExceeded(Code.TIMEOUT, text, limit="body_idle_seconds") from None
        self.is_read = True
        return b"".join(pieces)

    def taken(self, data: bytes, resource: str, most: int, held: Holding) -> bytes:
        """A body that is there as a whole, counted as held.

        Raises:
            LimitExceeded: It is too large.
            Busy: The actor has too much in flight.
        """
        if len(data) > most:
            raise body_limit(resource, most, len(data))
        self.is_read = True
        if data:
            held.take(len(data))
        return data

    async def _piece(self) -> tuple[bytes, bool]:
        assert self.receive is not None
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Cancelled(Code.CANCELLED, "the client left before the end of the body")
        return message.get("body", b""), message.get("more_body", False)

    async def drained(self) -> bool:
        """Read the rest of an unwanted body, so that the client receives the answer.

        Not for long: False if there is more of it, and the connection has to be closed.
        """
        if self.arrival.is_whole:
            return True
        taken, has_more = 0, True
        with suppress(TimeoutError, Cancelled):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while has_more and taken < _DRAIN_BYTES:
                    data, has_more = await self._piece()
                    taken += len(data)
        return not has_more

    @contextmanager
    def watched(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call a function, within the block, when the client leaves."""
        arrival = self.arrival
        arrival.when_left = leave
        if arrival.has_left:
            leave()
        try:
            yield
        finally:
            arrival.when_left = None

    # -- the answer --------------------------------------------------------------------------------

    def head(self, found: WholeAnswer | StreamedAnswer, extra: Headers) -> Headers:
        """The headers of an answer, with more."""
        head: Headers = [
            (b"content-type", found.media.encode("latin-1")),
            (b"x-request-id", self.request_id.encode()),
            *_ALWAYS,
            *found.headers,
            *extra,
        ]
        if isinstance(found, WholeAnswer) and all(
            name != b"content-length" for name, _ in found.headers
        ):
            head.append((b"content-length", b"%d" % len(found.body)))
        return head

    async def answer(self, found: WholeAnswer | StreamedAnswer, extra: Headers) -> None:
        """Send an answer, with more headers."""
        send = self.send
        assert send is not None
        head = self.head(found, extra)
        start = {"type": "http.response.start", "status": found.status, "headers": head}
        if isinstance(found, WholeAnswer):
            await send(start)
            await send({"type": "http.response.body", "body": found.body})
            return
        with self.watched(found.leave):
            try:
                await send(start)
                async for piece in found.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                found.leave()
