"""Tasks on threads of this process. Arrow and Lance work outside of Python's lock."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from omnigraph.dataplane.run.runner import Item, Result


class InProcessRunner:
    """Runs tasks on a few threads. With one item, or one thread, on the caller's own."""

    is_remote = False

    def __init__(
        self, parallelism: int | None = None, stop: Callable[[], None] | None = None
    ) -> None:
        """Use this many threads; by default one more than processors: some wait for storage.

        Args:
            parallelism: How many.
            stop: Makes running tasks end soon; called when a stage ends early.
        """
        self.parallelism = parallelism or len(os.sched_getaffinity(0)) + 1
        self._stop = stop

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each item; yield the number of an item and its result as they come."""
        if len(items) <= 1 or self.parallelism == 1:
            yield from ((number, task(item)) for number, item in enumerate(items))
            return
        yield from self._run(stage, task, items, min(self.parallelism, len(items)))

    def run_arriving(
        self, stage: str, task: Callable[[Item], Result], items: Iterator[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each item, as `run` does; items are taken when a thread is free."""
        yield from self._run(stage, task, items, self.parallelism)

    def _run(
        self, stage: str, task: Callable[[Item], Result], items: Iterable[Item], threads: int
    ) -> Iterator[tuple[int, Result]]:
        with ThreadPoolExecutor(threads, f"omnigraph-{stage}") as pool:
            # Not all at once: an error or an interrupt should leave little to wait for.
            waiting = iter(enumerate(items))
            running: dict[Future[Result], int] = {}

            def start() -> None:
                for number, item in waiting:
                    # What the caller counts and where it can be broken holds for its tasks, too.
                    context = contextvars.copy_context()
                    running[pool.submit(context.run, task, item)] = number
                    return

            try:
                for _ in range(threads):
                    start()
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        number = running.pop(future)
                        result = future.result()
                        start()
                        yield number, result
            except BaseException:
                for future in running:
                    future.cancel()
                if self._stop is not None:
                    self._stop()
                raise
