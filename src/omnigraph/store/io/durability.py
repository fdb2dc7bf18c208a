"""Making local writes survive a power cut: sync what a write created, and nothing else.

Lance writes atomically but never syncs. A file is durable when its content is synced and its name
is in a synced directory; a new directory likewise needs its own name in a synced parent. This
module keeps the directories whose names are known to be durable, so that a warm write syncs only
its files and the directories they are in. Every sync is counted: ``disk.files``, ``disk.dirs``.

Every step that matters to a power cut passes through here, and a test may watch them: from the
steps of one commit it rebuilds each state that a disk may have kept.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from omnigraph.runtime import telemetry

__all__ = ["Disk", "DiskStep", "link", "replace", "unlink", "watching"]


class DiskStep(StrEnum):
    """The steps that are done to a file or a directory."""

    LINK = "link"
    REPLACE = "replace"
    UNLINK = "unlink"
    SYNC_FILE = "sync_file"
    SYNC_DIRECTORY = "sync_directory"


# Called before each step, with the paths that it is about.
Watcher: TypeAlias = Callable[[DiskStep, tuple[Path, ...]], None]
_lock: Final = threading.Lock()
_watchers: tuple[Watcher, ...] = ()  # replaced, never changed: readers take no lock


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call a function before every step of the process, on whichever thread it is made."""
    global _watchers  # noqa: PLW0603 - one process, one set of watchers
    with _lock:
        _watchers = (*_watchers, watcher)
    try:
        yield
    finally:
        with _lock:
            _watchers = tuple(each for each in _watchers if each is not watcher)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; fail if the name is taken."""
    _notify(DiskStep.LINK, source, target)
    os.link(source, target)


def replace(source: Path, target: Path) -> None:
    """Move a file to a name, whether or not it is taken."""
    _notify(DiskStep.REPLACE, source, target)
    os.replace(source, target)


def unlink(path: Path | str) -> None:
    """Remove a name."""
    _notify(DiskStep.UNLINK, path)
    os.unlink(path)


def _notify(step: DiskStep, *paths: Path | str) -> None:
    for watcher in _watchers:
        watcher(step, tuple(map(Path, paths)))


class Disk:
    """Syncs below one directory. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._durable_names: set[str] = set()

    def sync(self, files: Iterable[Path]) -> None:
        """Make files and their names durable. A file that is gone is skipped.

        Gone means that it was removed on purpose, for instance by a clean-up, which is responsible
        for that.
        """
        self.sync_names(self.sync_contents(files))

    def sync_contents(self, files: Iterable[Path]) -> list[Path]:
        """Make the content of files durable; return those that are there."""
        return [path for path in files if _sync_file(path)]

    def sync_names(self, files: Iterable[Path]) -> None:
        """Make the names of files durable, once per directory."""
        new: dict[str, None] = {}  # names of directories that will be durable, too
        wanted: dict[Path, None] = {}
        for parent in dict.fromkeys(path.parent for path in files):
            wanted[parent] = None
            self._add_parents(parent, wanted, new)
        # The deepest first, each once: many files of one write share directories.
        for directory in sorted(wanted, key=lambda path: len(path.parts), reverse=True):
            _sync_directory(directory)
        with self._lock:
            self._durable_names.update(new)

    def sync_directories(self, directories: Iterable[Path]) -> None:
        """Make the names in directories durable, after something was removed from them."""
        for directory in directories:
            _sync_directory(directory)

    def _add_parents(self, directory: Path, wanted: dict[Path, None], new: dict[str, None]) -> None:
        """Add the parents of a directory, as far up as its name is new to us."""
        while directory not in (self._root.parent, directory.parent):
            name = str(directory)
            if name in new:
                return
            with self._lock:
                if name in self._durable_names:
                    return
            new[name] = None
            directory = directory.parent
            wanted[directory] = None

    def forget(self, directory: Path) -> None:
        """Forget what is known about a directory and everything below, because it was removed."""
        gone, below = str(directory), f"{directory}{os.sep}"
        with self._lock:
            self._durable_names = {
                known
                for known in self._durable_names
                if known != gone and not known.startswith(below)
            }


def _sync_file(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    _notify(DiskStep.SYNC_FILE, path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    telemetry.count("disk.files")
    return True


def _sync_directory(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    _notify(DiskStep.SYNC_DIRECTORY, path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    telemetry.count("disk.dirs")
