"""The start of a process of the command line, without what its first answer need not wait for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_PANDAS = "pandas"
_state = {"is_own": False}


def own_process() -> None:
    """Note that this process is a command and nothing else: nobody but us uses its libraries."""
    _state["is_own"] = True


def spare_pandas() -> None:
    """Let Arrow find no pandas, in a process of our own.

    Where pandas is installed, Arrow imports it for the first array, which takes longer than a
    small query. Commands turn nothing into its frames. Spark still finds pandas afterwards.
    """
    if not _state["is_own"] or _PANDAS in sys.modules or "pyarrow" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow as pa  # noqa: PLC0415  nobody else should wait for it

        # Arrow looks for pandas once, now.
        pa.array([])
    finally:
        sys.meta_path.remove(hidden)


def collect_again() -> None:
    """Let the collector look at what a command makes, in a process of our own.

    Until then it was off: what imports make stays, and it would go through all of that.
    """
    if _state["is_own"] and not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def uncollected() -> Iterator[None]:
    """Open the first graph of a process of our own without looking for garbage.

    Imports make hundreds of thousands of objects that stay. The collector would go through them
    again and again, and through all of them in every later collection.
    """
    if not _state["is_own"] or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _Hidden:
    """A finder that says of pandas that it is not there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"{_PANDAS} is left out of this process", name=_PANDAS)
        return None
