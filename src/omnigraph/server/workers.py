"""Several processes behind one socket: begun together, replaced when one dies, ended together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Final

from omnigraph.errors import Code, Unavailable
from omnigraph.runtime.clock import Clock, SystemClock

logger = logging.getLogger("omnigraph.server")

# A worker that dies sooner than this after its start has probably no chance; three times is enough.
_YOUNG_NS: Final = 10_000_000_000
_EARLY_DEATHS_MAX: Final = 3

# A process gets its number, and the end of a pipe that closes when the first process ends.
WorkerMain = Callable[[int, int], None]


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    begun_ns: int


class Workers:
    """The processes of a server, watched by the one that began them."""

    def __init__(self, main: WorkerMain, number: int, clock: Clock | None = None) -> None:
        """Run `main` in so many processes."""
        self._main = main
        self._number = number
        self._clock = clock or SystemClock()
        # The processes share the pages of what is loaded already: no graph is open here.
        self._context = multiprocessing.get_context("fork")
        self._workers: dict[int, _Worker] = {}
        self._is_ending = False
        self._early_deaths = 0

    def run(self) -> None:
        """Run until a signal comes, and let every process end its requests.

        Raises:
            Unavailable: Processes die as soon as they begin.
        """
        self._alive, self._held = os.pipe()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._stop)
        try:
            for number in range(self._number):
                self._begin(number)
            while self._workers:
                self._replace_dead()
        finally:
            self._end_all()
            os.close(self._alive)
            os.close(self._held)
        if self._early_deaths >= _EARLY_DEATHS_MAX:
            text = "the processes of the server end as soon as they begin; its log has the reason"
            raise Unavailable(Code.UNAVAILABLE, text)

    def _begin(self, number: int) -> None:
        process = self._context.Process(target=self._child, args=(number,), daemon=False)
        self._workers[number] = _Worker(process, self._clock.ticks_ns())
        process.start()
        if self._is_ending:
            # The signal came while it began.
            process.terminate()

    def _child(self, number: int) -> None:
        os.close(self._held)
        # The server takes the signals over; until then they end the process.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        self._main(number, self._alive)

    def _replace_dead(self) -> None:
        wait([each.process.sentinel for each in self._workers.values()])
        for number, worker in list(self._workers.items()):
            if worker.process.is_alive():
                continue
            worker.process.join()
            del self._workers[number]
            if self._is_ending:
                continue
            age = self._clock.ticks_ns() - worker.begun_ns
            self._early_deaths = self._early_deaths + 1 if age < _YOUNG_NS else 0
            code = worker.process.exitcode
            if self._early_deaths >= _EARLY_DEATHS_MAX:
                logger.error('{"worker": %d, "ended": %s, "replaced": false}', number, code)
                self._end_all()
                return
            logger.warning('{"worker": %d, "ended": %s, "replaced": true}', number, code)
            self._begin(number)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._end_all()

    def _end_all(self) -> None:
        self._is_ending = True
        for worker in self._workers.values():
            with suppress(AttributeError, ProcessLookupError):
                worker.process.terminate()
