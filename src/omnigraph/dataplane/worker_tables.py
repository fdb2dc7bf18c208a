"""The tables of a graph in whichever process a task of a bulk operation runs, if it sees them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Final

from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables, open_tables

_ids: Final = UlidIds()


def require_seen(root: Root) -> None:
    """Refuse to work on a graph that is not there for this process.

    Raises:
        InvalidInput: With the code `path_not_shared`.
    """
    if root.is_local and not root.local_path.is_dir():
        raise not_shared(root.uri)


def not_shared(path: str) -> InvalidInput:
    """The error of a path that workers do not see."""
    return InvalidInput(
        Code.PATH_NOT_SHARED,
        f"workers of Spark do not see {path!r} of the driver's machine: put it in object storage, "
        "or in a folder that the driver and all workers mount",
        path=path,
    )


class WorkerTables:
    """The tables of a graph: the given ones in this process, opened anew in others. Picklable.

    Another process opens them once for each operation. It may outlive the graph, and what it knows
    of the tables at an address is wrong for a graph that was made there afterwards.
    """

    def __init__(self, root: Root, *, durable: bool, tables: Tables | None = None) -> None:
        """Use these tables in this process; others open their own."""
        self.root = root
        self.durable = durable
        self._operation = _ids.new()
        self._tables = tables

    @property
    def is_driver(self) -> bool:
        """True in the process that runs the operation."""
        return self._tables is not None

    def errors(self) -> AbstractContextManager[None]:
        """Translates storage failures of a worker; the driver does that for its own."""
        return nullcontext() if self.is_driver else storage_errors()

    def require_seen(self) -> None:
        """Refuse to work on a graph that this worker does not see.

        Raises:
            InvalidInput: With the code `path_not_shared`.
        """
        if not self.is_driver:
            require_seen(self.root)

    @property
    def tables(self) -> Tables:
        """The tables of the graph."""
        if self._tables is not None:
            return self._tables
        self.require_seen()
        options = tuple(sorted(self.root.storage_options.items()))
        return _opened(self._operation, self.root.uri, options, self.durable)

    def __getstate__(self) -> tuple[str, Root, bool]:
        return self._operation, self.root, self.durable

    def __setstate__(self, state: tuple[str, Root, bool]) -> None:
        self._operation, self.root, self.durable = state
        self._tables = None


# A worker seldom has tasks of more than one operation in turns.
@lru_cache(maxsize=2)
def _opened(
    _operation: str, uri: str, options: tuple[tuple[str, str], ...], durable: bool
) -> Tables:
    return open_tables(Root(uri, dict(options)), durable=durable)
