"""Renewing a lease from another thread, while its owner is inside of one long call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph.core import tuning
from omnigraph.errors import GraphError
from omnigraph.runtime import telemetry
from omnigraph.store.failures import StorageFailure


@contextmanager
def renewing(renew: Callable[[], None], name: str) -> Iterator[None]:
    """Call a function every second while the block runs, for an hour at most.

    Args:
        renew: Renews the lease if it is time to. A `GraphError` says that it is lost and ends the
            renewing; the owner finds out when it looks itself.
        name: The name of the thread.
    """
    done = threading.Event()
    thread = threading.Thread(target=_renew_until, args=(done, renew), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _renew_until(done: threading.Event, renew: Callable[[], None]) -> None:
    for _ in range(int(tuning.active.renewal_max_s / tuning.active.renewal_pause_s)):
        if done.wait(tuning.active.renewal_pause_s):
            return
        try:
            renew()
        except StorageFailure as failure:
            telemetry.logger.warning("a lease could not be renewed: %s", failure)
        except GraphError:
            return
