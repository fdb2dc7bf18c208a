"""Objects as files of a local directory.

Written here and not left to obstore, for one reason: a name must never show a torn object after a
power cut. The content is synced under a temporary name first and then gets its own, by a link that
refuses to replace, or a rename that replaces.
"""

import builtins
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.store.objects import ObjectInfo
from omnigraph.store.sync import Disk, link, replace, unlink

__all__ = ["LocalBackend"]

_TEMPORARY: Final = ".og-tmp-"
# What a file system answers that cannot link these two places.
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK})


class LocalBackend:
    """The verbs of an object store on a directory."""

    def __init__(self, root: Path, *, durable: bool, ids: Ids | None = None) -> None:
        self._root = root
        self._prefix = f"{root}{os.sep}"
        self._disk = Disk(root) if durable else None
        self._ids: Ids = ids or UlidIds()

    def put_new(self, path: str, data: bytes) -> None:
        """Create, or fail if it is there."""
        target = self._root / path
        with self._written(target, data) as temporary:
            link(temporary, target)
        self._settle(target)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace."""
        target = self._root / path
        with self._written(target, data) as temporary:
            replace(temporary, target)
        self._settle(target)

    def get(self, path: str) -> bytes:
        """Read everything."""
        return (self._root / path).read_bytes()

    def list(self, prefix: str) -> list[ObjectInfo]:
        """List below a prefix; what vanishes meanwhile is left out."""
        found = []
        for folder, _, names in os.walk(self._root / prefix):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    stat = path.stat()
                    if not name.startswith(_TEMPORARY):
                        relative = path.relative_to(self._root).as_posix()
                        found.append(ObjectInfo(relative, stat.st_size, stat.st_mtime_ns // 1_000))
        return found

    def children(self, prefix: str) -> builtins.list[str]:
        """List the names right below a prefix."""
        try:
            names = os.listdir(self._root / prefix)
        except FileNotFoundError:
            return []
        return [name for name in names if not name.startswith(_TEMPORARY)]

    def beginning(self, folder: str, text: str) -> builtins.list[str]:
        """List the names in a folder that begin with a text."""
        return [name for name in self.children(folder) if name.startswith(text)]

    def exists(self, path: str) -> bool:
        """Look for a file."""
        # Every reader asks this before every query; joining paths the long way costs the most.
        try:
            return S_ISREG(os.stat(f"{self._prefix}{path}").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def delete(self, path: str) -> None:
        """Remove, or fail if it is missing."""
        target = self._root / path
        unlink(target)
        if self._disk:
            self._disk.sync_directories([target.parent])

    def copy(self, source: str, target: str) -> None:
        """Link a file that never changes to a second name; copy it where links cannot be made.

        The caller syncs it.
        """
        place = self._root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            link(self._root / source, place)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(self._root / source, place)

    @contextmanager
    def _written(self, target: Path, data: bytes) -> Iterator[Path]:
        """Hold the content in a temporary file beside the target."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(_TEMPORARY + self._ids.new())
        try:
            # Never an existing file: after a crash one may still be linked to an object.
            with open(temporary, "xb") as file:
                file.write(data)
            if self._disk:
                self._disk.sync_contents([temporary])
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                unlink(temporary)

    def _settle(self, target: Path) -> None:
        if self._disk:
            self._disk.sync_names([target])
