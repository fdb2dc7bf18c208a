"""Paths of one machine that tasks on another do not see."""

from __future__ import annotations

from omnigraph.errors import Code, InvalidInput
from omnigraph.store.root import Root


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
