"""What a contender gives the worker: something to time, and a way to tell that it did its work."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

THREADS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One measured pass.

    Attributes:
        run: What is timed.
        count: Afterwards: how many rows are there, by type. A pass that made others does not count.
        close: Afterwards: let go of what it holds.
        about: Afterwards: what else there is to tell.
    """

    run: Callable[[], object]
    count: Callable[[], Mapping[str, int]]
    close: Callable[[], None] = lambda: None
    about: Mapping[str, Any] = field(default_factory=dict)


def contender(name: str) -> Callable[..., Pass]:
    """The function `module:function` that prepares a pass."""
    module, _, function = name.partition(":")
    found: Callable[..., Pass] = getattr(importlib.import_module(module), function)
    return found
