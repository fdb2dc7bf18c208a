"""Changing thresholds for a while, for tests. Each layer has its own in a module `tuning`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["changed"]


@contextmanager
def changed(values: object, **changes: int) -> Iterator[None]:
    """Give some of these values others for a while, in all threads. For tests."""
    before = {name: getattr(values, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(values, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(values, name, value)
