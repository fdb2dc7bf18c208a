"""Threads that work for the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

logger = logging.getLogger("omnigraph.server")
T = TypeVar("T")
_Task = Callable[[], None]


class Threads:
    """A bounded number of threads, begun when they are needed.

    Those of the standard library make two futures, with a lock and a condition, for every call from
    the loop. A small read takes less time than that.
    """

    def __init__(self, size: int, name: str) -> None:
        """Have at most so many threads, of this name."""
        self._size = size
        self._name = name
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()
        self._is_ended = False

    async def run(self, work: Callable[[Any], T], argument: Any) -> T:
        """Call a function on a thread, in a copy of the context, and wait for its result."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def task() -> None:
            if found.cancelled():
                return
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = context.run(work, argument)
            except BaseException as error:  # noqa: BLE001  # the waiting thread gets it
                failure = error
            with suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(_tell, found, result, failure)

        self._put(task)
        return await found

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call a function on a thread, without waiting for it."""
        self._put(lambda: work(*arguments))

    def shutdown(self) -> None:
        """End the threads after their current calls; waiting calls are not begun."""
        with self._lock:
            self._is_ended = True
            threads = list(self._threads)
        for _ in threads:
            self._tasks.put(None)
        for thread in threads:
            thread.join()

    def _put(self, task: _Task) -> None:
        with self._lock:
            if self._is_ended:
                raise RuntimeError("the threads have ended")
            self._idle -= 1
            if self._idle < 0 and len(self._threads) < self._size:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                self._idle += 1
                thread.start()
        self._tasks.put(task)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if not self._is_ended:
                try:
                    task()
                except Exception:
                    logger.exception("work of thread %s failed", threading.current_thread().name)
            del task
            with self._lock:
                self._idle += 1


def _tell(found: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if found.done():
        return
    if failure is None:
        found.set_result(result)
    else:
        found.set_exception(failure)
