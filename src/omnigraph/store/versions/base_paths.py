"""The places at which forks record the tables that they were made from.

Lance writes that place into every version of a fork as an absolute path, and reads the shared files
from there. In a graph that was moved they are missing; in one that was copied, they are those of
the original. So a fork is used only if the place it recorded is the one that is open. Trunks record
no places and work anywhere.
"""

import os
from typing import Any, Final

from omnigraph.errors import Code, Corrupt
from omnigraph.store.root import Root

__all__ = ["RecordedPaths", "new_place", "root_of"]

_FORKS: Final = "/tree/"


class RecordedPaths:
    """The places that forks of one root recorded. Thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        # Places by whether they are the root; looking at the disk once is enough for each.
        self._known: dict[str, bool] = {}

    def check(self, dataset: Any, path: str) -> None:
        """Refuse the handle of a fork of the table at a path if it would read another graph.

        Raises:
            Corrupt: GRAPH_MOVED.
        """
        own = self._root.join(path)
        for base in dataset.base_paths().values():
            if base.path == own or base.path.startswith(own + _FORKS):
                continue
            recorded = root_of(base.path, path)
            if not self.is_root(recorded):
                raise _moved(self._root.uri, recorded, path)

    def is_root(self, recorded: str) -> bool:
        """Return whether a recorded root is the one that is open, however it is spelled."""
        if recorded == self._root.uri:
            return True
        found = self._known.get(recorded)
        if found is None:
            found = self._known[recorded] = self._root.is_local and _same(recorded, self._root.uri)
        return found


def root_of(recorded: str, path: str) -> str:
    """Return the root under which a table, or a fork of it, has the recorded path."""
    table, _, _ = f"{recorded.rstrip('/')}/".partition(f"/{path}{_FORKS}")
    return table.rstrip("/").removesuffix(f"/{path}")


def new_place(recorded: str, path: str, root: str) -> str:
    """Return the place below a root of what has the recorded place below another one."""
    return root + recorded.rstrip("/").removeprefix(root_of(recorded, path))


def _same(recorded: str, root: str) -> bool:
    """Return whether two spellings name one folder: through a link, or another mount."""
    try:
        return os.path.samefile(recorded, root)
    except (OSError, ValueError):
        return False


def _moved(root: str, recorded: str, path: str) -> Corrupt:
    text = (
        f"the graph at {root} was moved or copied from {recorded}, and the branch refers to files "
        "there. 'main' and new branches work; for the older branches run "
        f"`omnigraph relocate {root}` or `omnigraph.relocate`, once"
    )
    return Corrupt(Code.GRAPH_MOVED, text, root=root, recorded=recorded, path=path)
