"""The number of times that a write starts over when others came first, and the pauses between."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from omnigraph.errors import Code, InvalidInput


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

    def with_retries(self, retries: object) -> RetryPolicy:
        """The policy with another number of retries; None: the same policy.

        Raises:
            InvalidInput: It is no whole number from 0 on.
        """
        if retries is None:
            return self
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            text = f"retries is a whole number from 0 on, not {retries!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        return replace(self, retries=retries)

    @property
    def for_long_work(self) -> RetryPolicy:
        """The policy of an operation that may have to do long work again."""
        return replace(self, retries=min(self.retries, self.long_retries))


def wait_seconds(seconds: float) -> None:
    """Sleep."""
    threading.Event().wait(seconds)
