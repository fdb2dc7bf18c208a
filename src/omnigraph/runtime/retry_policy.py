"""The number of times that a write starts over when others came first, and the pauses between."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of times that a write starts over, and its backoff.

    Attributes:
        retries: How often at most; 0 gives the conflict to the caller at once.
        long_retries: How often at most where starting over may mean to do long work again.
        pause_s: How long it waits after the second loss, in seconds; twice as long after the
            third, and so on.
        pause_max_s: The longest pause.
    """

    retries: int = 100
    long_retries: int = 3
    pause_s: float = 0.002
    pause_max_s: float = 0.1

    def pause(self, losses: int) -> float:
        """Return how long to wait after so many lost races; after the first, not at all."""
        return min(self.pause_s * (losses - 1), self.pause_max_s)

    @property
    def for_long_work(self) -> RetryPolicy:
        """The policy of an operation that may have to do long work again."""
        return replace(self, retries=min(self.retries, self.long_retries))


def wait_seconds(seconds: float) -> None:
    """Sleep."""
    threading.Event().wait(seconds)
