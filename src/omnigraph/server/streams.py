"""Bodies between the event loop and the threads that call the graph, with bounds on both sides."""

from __future__ import annotations

import asyncio
import io
import threading
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

from omnigraph.errors import Cancelled, Code, InvalidInput, LimitExceeded

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

# The loop stops to read the socket above the first mark, and goes on below the second one.
_PAUSE_BYTES: Final = 4 << 20
_RESUME_BYTES: Final = 1 << 20
# What has to come of a body within its idle seconds: a byte now and then would hold a thread.
_CAME_BYTES_MIN: Final = 16 << 10
# How much larger than its compressed form a body may become, once it is past the floor.
RATIO_MAX: Final = 200
RATIO_FLOOR_BYTES: Final = 64 << 20


def body_limit(resource: str, limit: int, actual: int) -> LimitExceeded:
    """The error of a body that is larger than it may be; it names the budget."""
    text = f"the body has more than {limit} bytes, which is the budget `{resource}` of this server"
    return LimitExceeded(
        Code.LIMIT_EXCEEDED, text, resource=resource, limit=resource, most=limit, actual=actual
    )


class Holding(Protocol):
    """Counts the bytes that are held."""

    def take(self, count: int) -> None:
        """Hold so many bytes more, or fewer if the number is negative."""


class _Uncounted:
    def take(self, count: int) -> None:
        pass


UNCOUNTED: Final[Holding] = _Uncounted()


class Upload(io.RawIOBase):
    """The body of a request as a file: the loop fills it, a thread that calls the graph reads it.

    The end of the file is the end of the body. A client that leaves, or is too slow, is an error
    for the reader, so that nothing of the body is ever published.
    """

    def __init__(self, bytes_max: int, resource: str, idle_s: float, held: Holding) -> None:
        """Take at most so many bytes, and wait at most so many seconds for some of them."""
        super().__init__()
        self._bytes_max = bytes_max
        self._resource = resource
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._holding = held
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._ready = threading.Condition()
        self._chunks: deque[memoryview] = deque()
        self._held = 0
        self._ended = False
        self._failure: Exception | None = None
        self._is_abandoned = False
        self.received = 0

    # -- the side of the loop ----------------------------------------------------------------------

    async def fill(self, receive: Receive) -> None:
        """Take the body from the socket until it ends, fails, or is not wanted any more."""
        try:
            await self._fill(receive)
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the reader must not take it for the end of the body.
            self._put(None, error)

    async def _fill(self, receive: Receive) -> None:
        deadline, came = self._loop.time() + self._idle_s, 0
        while not self._is_abandoned:
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                text = f"only {came} bytes of the body came within {self._idle_s:g} seconds"
                error = LimitExceeded(Code.TIMEOUT, text, limit="body_idle_seconds")
                raise error from None
            if message["type"] == "http.disconnect":
                raise Cancelled(Code.CANCELLED, "the client left before the end of the body")
            piece = message.get("body", b"")
            came += len(piece)
            self.received += len(piece)
            if self.received > self._bytes_max:
                raise body_limit(self._resource, self._bytes_max, self.received)
            self._put(piece, None, ended=not message.get("more_body", False))
            if self._ended:
                return
            if came >= _CAME_BYTES_MIN or not self._has_room.is_set():
                await self._has_room.wait()
                deadline, came = self._loop.time() + self._idle_s, 0

    def _put(self, piece: bytes | None, error: Exception | None, *, ended: bool = False) -> None:
        with self._ready:
            if piece:
                self._holding.take(len(piece))
                self._chunks.append(memoryview(piece))
                self._held += len(piece)
                if self._held > _PAUSE_BYTES:
                    self._has_room.clear()
            self._failure = self._failure or error
            self._ended = self._ended or ended or error is not None
            self._ready.notify_all()

    def abandon(self) -> None:
        """Take nothing more: the reader is gone."""
        self._is_abandoned = True
        self._has_room.set()

    # -- the side of the thread --------------------------------------------------------------------

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what is there, and wait for the first byte."""
        view = memoryview(buffer).cast("B")
        with self._ready:
            while not self._chunks and not self._ended:
                self._ready.wait()
            if self._failure is not None:
                raise self._failure
            done = 0
            while self._chunks and done < len(view):
                first = self._chunks[0]
                taken = min(len(first), len(view) - done)
                view[done : done + taken] = first[:taken]
                done += taken
                if taken == len(first):
                    self._chunks.popleft()
                else:
                    self._chunks[0] = first[taken:]
            self._held -= done
            self._holding.take(-done)
            if self._held < _RESUME_BYTES and not self._has_room.is_set():
                self._loop.call_soon_threadsafe(self._has_room.set)
        return done


class Growth:
    """Refuses what becomes too large, absolutely or for what came in."""

    def __init__(self, upload: Upload, bytes_max: int) -> None:
        """Compare with this upload."""
        self._upload = upload
        self._bytes_max = bytes_max
        self._given = 0

    def add(self, count: int) -> None:
        """Count so many bytes more.

        Raises:
            LimitExceeded: They are too many; it names the budget.
        """
        self._given += count
        self.check(0)

    def check(self, count: int) -> None:
        """Refuse so many bytes more, without counting them.

        Raises:
            LimitExceeded: They would be too many; it names the budget.
        """
        given = self._given + count
        if given > self._bytes_max:
            raise body_limit("load_decompressed_bytes", self._bytes_max, given)
        if given > max(RATIO_FLOOR_BYTES, RATIO_MAX * self._upload.received):
            text = f"the body became {RATIO_MAX} times as large as it came in"
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, resource="load_compression_ratio", most=RATIO_MAX
            )


class BoundedBody(io.RawIOBase):
    """A decompressed body that may not become too large, absolutely or for what came in."""

    def __init__(self, source: Any, upload: Upload, bytes_max: int) -> None:
        """Read a decompressing stream over an upload."""
        super().__init__()
        self._source = source
        self._upload = upload
        self._growth = Growth(upload, bytes_max)

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; refuse what has grown beyond its bounds."""
        view = memoryview(buffer).cast("B")
        try:
            data = self._source.read(min(len(view), 1 << 20))
        except OSError as error:
            failure = self._upload._failure  # the decompressor wraps errors of the body
            if failure is not None:
                raise failure from error
            text = f"the compressed body is damaged or cut short: {error}"
            raise InvalidInput(Code.INPUT_INVALID, text) from error
        view[: len(data)] = data
        self._growth.add(len(data))
        return len(data)


class Sink:
    """A file that a thread writes and the loop sends; a client that leaves ends the writer."""

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._has_chunk = asyncio.Event()
        self._has_room = threading.Condition()
        self._ended = False
        self._failure: BaseException | None = None
        self._left = False

    # -- the side of the thread --------------------------------------------------------------------

    def write(self, data: Any) -> int:
        """Hand bytes to the loop; wait while too many wait there."""
        piece = bytes(data)
        with self._has_room:
            while self._held > _PAUSE_BYTES and not self._left:
                self._has_room.wait()
            if self._left:
                raise Cancelled(Code.CANCELLED, "the client left before the end of the answer")
            self._chunks.append(piece)
            self._held += len(piece)
        self._loop.call_soon_threadsafe(self._has_chunk.set)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: bytes are handed on at once."""

    def end(self, failure: BaseException | None = None) -> None:
        """Note the end of the data, with the failure if it is one."""
        with self._has_room:
            self._ended, self._failure = True, failure
        self._loop.call_soon_threadsafe(self._has_chunk.set)

    # -- the side of the loop ----------------------------------------------------------------------

    async def next(self) -> bytes | None:
        """The next bytes; None at the end. A failure of the writer is raised here."""
        while True:
            with self._has_room:
                if self._chunks:
                    piece = b"".join(self._chunks)
                    self._chunks.clear()
                    self._held = 0
                    self._has_room.notify_all()
                    return piece
                if self._ended:
                    if self._failure is not None:
                        raise self._failure
                    return None
                self._has_chunk.clear()
            await self._has_chunk.wait()

    def leave(self) -> None:
        """Note that the reader has left."""
        with self._has_room:
            self._left = True
            self._has_room.notify_all()
