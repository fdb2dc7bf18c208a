"""Every state that a disk may have kept of a write, if the power goes at any moment of it.

A recorder notes what happens to the files of a world: its own scans tell what was written, linked,
renamed and removed, by us or by Lance, and the store's tracing layer tells what was synced and
when. From that follow the states that are legal after a cut:

- what a file holds is certain once it is synced; until then it may be empty, cut short, or whole;
- an entry of a directory is certain once the directory is synced; until then it may be what it was
  or anything that it became since, whatever became of other entries;
- what lies in a directory whose own entry is lost is lost.

The states of one moment are the product of these choices. Files that have meaningful names (a
version, a record of a fork, an intent, a claim, a schema) and all directories are chosen one by
one. Files that only other files refer to (data, transactions, indexes, temporary files) share one
choice: whole, cut short, empty or absent, all of them. That loses nothing: such a file matters if
something durable refers to it before it is durable itself, and then one of the four shows it. The
same holds for the folder of a fork while the disk cannot have a record of it.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from omnigraph.store.io import durability
from omnigraph.store.io.durability import DiskStep

# What a name stands for: the number of a file, a directory, or nothing.
Entry: TypeAlias = "int | None"
DIRECTORY: Final = -1
# A state: the content of every file by its path, and the empty directories.
State: TypeAlias = "frozenset[tuple[str, bytes | None]]"

_REFERRED: Final = re.compile(
    r"(^|/)(data|_transactions|_deletions|_indices|__staging)/"
    r"|(^|/)\.fork-|(^|/)\.og-tmp-|\.manifest-|/d\d+\.manifest$|latest_version_hint\.json"
)
_RECORDS: Final = "/_refs/branches"
_STATES_MAX: Final = 4_096


class Fate(StrEnum):
    """What the disk kept of the files that only others refer to."""

    WHOLE = "whole"
    SHORT = "short"
    EMPTY = "empty"
    ABSENT = "absent"


@dataclass(slots=True)
class _File:
    content: bytes
    synced: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """What is certain and what is open at one moment.

    Attributes:
        files: The content of each file, and whether it is synced.
        entries: For each directory and name, what it may stand for: what was synced last comes
            first, what it is now comes last.
        forks: The folders of the forks that the disk may have a record of.
    """

    files: Mapping[int, tuple[bytes, bool]]
    entries: Mapping[str, Mapping[str, tuple[Entry, ...]]]
    forks: tuple[str, ...]

    def states(self) -> set[State]:
        """Every state that the disk may have kept."""
        found: set[State] = set()
        for fate in Fate:
            found.update(self._directory("", fate))
        return found

    def _directory(self, place: str, fate: Fate) -> list[State]:
        """The states of everything below a directory that was kept."""
        choices: list[list[State]] = []
        for name, options in sorted(self.entries.get(place, {}).items()):
            path = f"{place}/{name}" if place else name
            found: list[State] = []
            for entry in self._kept(path, options, fate):
                found.extend(self._entry(path, entry, fate))
            choices.append(list(dict.fromkeys(found)))
        combined = [
            frozenset[tuple[str, bytes | None]]().union(*each) for each in product(*choices)
        ]
        assert len(combined) <= _STATES_MAX, f"{len(combined)} states of {place}"
        return [state or frozenset({(place, None)}) for state in dict.fromkeys(combined)]

    def _kept(self, path: str, options: tuple[Entry, ...], fate: Fate) -> Iterable[Entry]:
        if len(options) == 1 or not self._is_referred(path):
            return dict.fromkeys(options)
        if DIRECTORY in options and not self._is_unrecorded(path):
            return dict.fromkeys(options)
        return (options[0] if fate is Fate.ABSENT else options[-1],)

    def _is_referred(self, path: str) -> bool:
        return _REFERRED.search(path) is not None or self._is_unrecorded(path)

    def _is_unrecorded(self, path: str) -> bool:
        """Is it in the folder of a fork of which there is no record?"""
        _, is_fork, _ = path.partition("/tree/")
        return bool(is_fork) and not any(
            f"{path}/".startswith(fork) or fork.startswith(f"{path}/") for fork in self.forks
        )

    def _entry(self, path: str, entry: Entry, fate: Fate) -> list[State]:
        if entry is None:
            return [frozenset()]
        if entry == DIRECTORY:
            return self._directory(path, fate)
        content, synced = self.files[entry]
        if synced:
            kept = [content]
        elif self._is_referred(path):
            kept = [_worn(content, fate)]
        else:
            kept = [_worn(content, each) for each in (Fate.WHOLE, Fate.SHORT, Fate.EMPTY)]
        return [frozenset({(path, each)}) for each in dict.fromkeys(kept)]


def _recorded(entries: Mapping[str, Mapping[str, Sequence[Entry]]]) -> Iterator[str]:
    """The folders of the forks that there may be a record of."""
    for place, names in entries.items():
        if place.endswith(_RECORDS):
            for name, options in names.items():
                if any(option is not None for option in options):
                    fork = unquote(name.removesuffix(".json"))
                    yield f"{place.removesuffix(_RECORDS)}/tree/{fork}/"


def _worn(content: bytes, fate: Fate) -> bytes:
    match fate:
        case Fate.SHORT:
            return content[: len(content) // 2]
        case Fate.EMPTY:
            return b""
        case Fate.WHOLE | Fate.ABSENT:
            return content


@dataclass(slots=True)
class Recorder:
    """Notes what happens below a folder, from a state of which everything is durable."""

    root: Path
    moments: list[Moment] = field(default_factory=list)
    _files: dict[int, _File] = field(default_factory=dict)
    _entries: dict[str, dict[str, list[Entry]]] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)  # of the inodes that have a name
    _stamps: dict[int, tuple[int, int]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def record(self, run: Callable[[], object]) -> None:
        """Run something; afterwards ``moments`` has one for each time that something was synced.

        The last one is that of its return.
        """
        self._scan()
        for file in self._files.values():
            file.synced = True
        for place in self._entries:
            self._settle(place)
        with durability.watching(self._watch):
            run()
        with self._lock:
            self._scan()
            self._note()

    def _watch(self, step: DiskStep, paths: tuple[Path, ...]) -> None:
        with self._lock:
            self._scan()
            match step:
                case DiskStep.SYNC_FILE:
                    self._note()
                    self._files[self._numbers[paths[0].stat().st_ino]].synced = True
                case DiskStep.SYNC_DIRECTORY:
                    self._note()
                    if paths[0] == self.root or self.root in paths[0].parents:
                        self._settle(self._place(paths[0]))
                case DiskStep.LINK | DiskStep.REPLACE | DiskStep.UNLINK:
                    pass  # the next scan finds it: until something is synced, order means nothing

    def _place(self, path: Path) -> str:
        relative = path.relative_to(self.root).as_posix()
        return "" if relative == "." else relative

    def _settle(self, place: str) -> None:
        entries = self._entries.get(place, {})
        for name, history in list(entries.items()):
            if history[-1] is None:
                del entries[name]
            else:
                entries[name] = [history[-1]]

    def _scan(self) -> None:
        """Take in what was done since the last scan."""
        seen: dict[str, dict[str, Entry]] = {}
        named: set[int] = set()
        for folder, directories, files in os.walk(self.root):
            here = seen.setdefault(self._place(Path(folder)), dict.fromkeys(directories, DIRECTORY))
            for name in files:
                try:
                    here[name] = self._number(Path(folder, name))
                except FileNotFoundError:
                    continue  # of a thread that is at work; the next scan has it
                named.add(os.stat(Path(folder, name)).st_ino)
        # The number of an inode without a name may be given to another file.
        for inode in set(self._numbers) - named:
            del self._numbers[inode], self._stamps[inode]
        for place in {*seen, *self._entries}:
            now, known = seen.get(place, {}), self._entries.setdefault(place, {})
            for name in {*now, *known}:
                history = known.setdefault(name, [None])
                if history[-1] != now.get(name):
                    history.append(now.get(name))

    def _number(self, path: Path) -> int:
        """The number of a file, with its content up to date."""
        stat = path.stat()
        stamp = (stat.st_size, stat.st_mtime_ns)
        number = self._numbers.get(stat.st_ino)
        if number is None or self._stamps[stat.st_ino] != stamp:
            content = path.read_bytes()
            if number is None or self._files[number].content != content:
                number = len(self._files) if number is None else number
                self._files[number] = _File(content, synced=False)
        self._numbers[stat.st_ino], self._stamps[stat.st_ino] = number, stamp
        return number

    def _note(self) -> None:
        self.moments.append(
            Moment(
                files={n: (file.content, file.synced) for n, file in self._files.items()},
                entries={
                    place: {name: tuple(history) for name, history in entries.items()}
                    for place, entries in self._entries.items()
                },
                forks=tuple(_recorded(self._entries)),
            )
        )

    def states(self) -> Iterator[tuple[State, bool]]:
        """Every legal state once, and whether it may only be seen after the write returned."""
        last = self.moments[-1].states()
        seen: set[State] = set()
        for moment in self.moments[:-1]:
            for state in moment.states() - seen:
                seen.add(state)
                yield state, False
        for state in last:
            yield state, True


def restore(state: State, root: Path) -> None:
    """Put a state in the place of whatever is there: forks know their absolute paths."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for path, content in state:
        target = root / path
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
