"""The protocol of a connection, with bounds that uvicorn does not have.

Headers may have so many bytes and lines, and must be complete within some seconds. A client that
takes nothing of its answer is left. Requests that
say their length in two ways are refused: two readers could take them for different requests.

A small request goes to the application when all of it is there. Many clients send a body after its
headers: a task that waits for it costs more than a small read. If the application can answer at
once, the answer leaves in one piece, without a task.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEADER_BYTES_MAX: Final = 64 << 10
HEADER_LINES_MAX: Final = 200
HEADER_SECONDS_MAX: Final = 10.0
# What a refused client still sends is thrown away up to here: closing on it at once would reset the
# connection, and the client would not see why.
LINGER_BYTES_MAX: Final = 16 << 20
LINGER_SECONDS_MAX: Final = 2.0
# The name under which the application finds the arrival of its request.
ARRIVAL: Final = "omnigraph.arrival"
# A body that says to be smaller is waited for, but only for a moment: then the application waits,
# by its own bounds.
_SMALL_BYTES: Final = 16 << 10
_SMALL_SECONDS: Final = 0.1
# A client that waits for an answer takes at least so much of it within the idle seconds.
_TAKEN_BYTES_MIN: Final = 16 << 10

_TEXTS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
}


class Arrival:
    """The progress of a request, which ASGI reports only to a task that waits."""

    __slots__ = ("has_left", "is_whole", "when_left")

    def __init__(self) -> None:
        """Begin with the headers."""
        # All of the body is there.
        self.is_whole = False
        self.has_left = False
        self.when_left: Callable[[], None] | None = None

    def leave(self) -> None:
        """Note that the client has left."""
        self.has_left = True
        if self.when_left is not None:
            self.when_left()


def _nothing() -> None:
    pass


class Timer:
    """Calls a function after a while, unless it is stopped before.

    Starting and stopping it moves a number: every request does both, and one more timer of the loop
    for each would take as long as reading its headers. That of the loop stays, and looks at the
    number when its time has come.
    """

    __slots__ = ("_call", "_due", "_handle", "_loop", "_seconds")

    def __init__(self, loop: AbstractEventLoop, seconds: float, call: Callable[[], None]) -> None:
        """Stand still."""
        self._loop = loop
        self._seconds = seconds
        self._call = call
        self._due: float | None = None
        self._handle: TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """True from its start until it is stopped or its time has come."""
        return self._due is not None

    def start(self) -> None:
        """Begin, or begin anew."""
        self._due = self._loop.time() + self._seconds
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._look)

    def stop(self) -> None:
        """Do not call the function."""
        self._due = None

    def close(self) -> None:
        """Stop for good, and leave nothing in the loop."""
        self._due = None
        # It may belong to an object that has this timer: both would be left to the collector.
        self._call = _nothing
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if self._due is None:
            return
        left = self._due - self._loop.time()
        if left > 0:
            self._handle = self._loop.call_later(left, self._look)
            return
        self._due = None
        self._call()


# An answer that is there at once: the whole of it, from the status line on.
AtOnce = Callable[[Any, bytes], tuple[int, list[tuple[bytes, bytes]], bytes] | None]


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose headers are bounded in bytes, lines and time."""

    _header_bytes = 0
    _deadline: TimerHandle | None = None
    # A small request that is not there as a whole.
    _coming: tuple[Any, Any] | None = None
    _is_small = False
    # One request of those that come together: others on the loop have their turn, too.
    _may_answer = True
    _in_headers = True
    _has_begun = False
    _is_refused = False
    _thrown_away = 0
    _has_served = False

    # A test may shorten it.
    header_seconds = HEADER_SECONDS_MAX

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._transport = transport
        # A client may send requests before the answers to earlier ones.
        self._arrivals: deque[Arrival] = deque()
        self._at_once: AtOnce | None = getattr(self.app, "at_once", None)
        # How long a small request is waited for, and the next one on a connection.
        self._patience = Timer(self.loop, _SMALL_SECONDS, self._begin)
        self._idle = Timer(self.loop, self.timeout_keep_alive, self.timeout_keep_alive_handler)
        # How long a client may take nothing of an answer.
        seconds = getattr(self.app, "idle_seconds", self.timeout_keep_alive)
        self._untaken = Timer(self.loop, seconds, self._end_untaken)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._disarm()
        self._coming = None
        self._patience.close()
        self._idle.close()
        self._untaken.close()
        super().connection_lost(exc)
        for each in self._arrivals:
            each.leave()
        self._arrivals.clear()

    def pause_writing(self) -> None:
        """Send no more for now, and watch that the client takes what waits for it."""
        super().pause_writing()
        self._waiting_bytes = self._transport.get_write_buffer_size()
        self._untaken.start()

    def resume_writing(self) -> None:
        """Send more."""
        super().resume_writing()
        self._untaken.stop()

    def _end_untaken(self) -> None:
        """End a connection whose client takes nothing: a thread and memory are held for it."""
        left = self._transport.get_write_buffer_size()
        if self._waiting_bytes - left < _TAKEN_BYTES_MIN:
            self._transport.abort()
        else:
            self._waiting_bytes = left
            self._untaken.start()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers while they come."""
        if self._is_refused:
            self._thrown_away += len(data)
            if self._thrown_away > LINGER_BYTES_MAX:
                self.transport.close()
            return
        if self._in_headers:
            self._header_bytes += len(data)
        self._may_answer = True
        super().data_received(data)
        if self._coming is not None and not self._patience.is_running:
            self._patience.start()
        if not self._in_headers or not (self._header_bytes or self._has_begun):
            return
        if self._header_bytes > HEADER_BYTES_MAX:
            self._refuse(431)
        elif self._deadline is None:
            self._arm()

    def on_message_begin(self) -> None:
        """Begin with the headers of a request."""
        super().on_message_begin()
        self._in_headers = self._has_begun = True

    def on_headers_complete(self) -> None:
        """Look at the headers as a whole, and let the request in."""
        self._in_headers = self._has_begun = False
        self._header_bytes = 0
        if self._is_refused:
            return
        self._disarm()
        size = hosts = lengths = 0
        is_chunked, said = False, b"0"
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"content-length":
                lengths += 1
                said = value
            elif name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                is_chunked = True
        # They came in one piece; others are counted while they come.
        if size > HEADER_BYTES_MAX or len(self.headers) > HEADER_LINES_MAX:
            self._refuse(431)
            return
        if lengths > 1 or hosts > 1 or (is_chunked and lengths):
            self._refuse(400)
            return
        is_known = not is_chunked and not self.expect_100_continue and said.isdigit()
        self._is_small = is_known and len(said) < 8 and int(said) <= _SMALL_BYTES
        super().on_headers_complete()
        # It knows no request of uvicorn, which would know it, too: what refers to itself stays in
        # memory until the collector looks for it, and that takes longer than a small read.
        self._arrival = self.scope[ARRIVAL] = Arrival()  # type: ignore[typeddict-unknown-key]
        self._arrivals.append(self._arrival)

    def on_response_complete(self) -> None:
        """Forget a request that was answered, and begin with the next one if it is there."""
        if self._arrivals:
            self._arrivals.popleft()
        # As uvicorn does it, which makes a timer for each.
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle.start()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, unless the request was refused."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, and wait for the next one."""
        self._in_headers = self._has_served = True
        if not self._is_refused:
            self._arrival.is_whole = True
            super().on_message_complete()
            self._begin()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Let the application begin, with a small request when it is there."""
        if self._is_small and cycle.more_body and cycle is self.cycle:
            self._coming = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _begin(self) -> None:
        """Begin with the small request that is there now, or was waited for long enough."""
        self._patience.stop()
        if self._coming is None:
            return
        cycle, app = self._coming
        self._coming = None
        if self._may_answer and not cycle.more_body and not self.flow.write_paused:
            self._may_answer = False
            found = None if self._at_once is None else self._at_once(cycle.scope, bytes(cycle.body))
            if found is not None:
                self._answer(cycle, *found)
                return
        super()._start_asgi_task(cycle, app)

    def _unset_keepalive_if_required(self) -> None:
        """Be idle no more: uvicorn calls it when something comes."""
        self._idle.stop()

    def _answer(
        self, cycle: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Send an answer that is there as a whole, in one piece."""
        pieces = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *headers):
            pieces += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            pieces.append(b"connection: close\r\n")
        pieces += (b"\r\n", body)
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join(pieces))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP as other requests are refused, unless an answer is under way."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._refuse(400)
        else:
            super().send_400_response(msg)

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(self.header_seconds, self._late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        has_begun = self._header_bytes or self._has_begun or not self._has_served
        if self._in_headers and has_begun:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        if self._is_refused:
            return
        self._is_refused = True
        self._disarm()
        body = b'{"error":"' + _TEXTS[status].lower().encode() + b'"}'
        head = (
            f"HTTP/1.1 {status} {_TEXTS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        transport: Any = self.transport
        if not transport.is_closing():
            transport.write(head.encode() + body)
            transport.write_eof()
            self._deadline = self.loop.call_later(LINGER_SECONDS_MAX, transport.close)
