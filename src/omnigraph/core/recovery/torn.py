"""Torn files that power cuts leave of commits of other programs and older releases, per graph.

We give a file its name when its content is on disk, so none of ours is ever torn. If the newest
version of a manifest is, its writer died before it could acknowledge anything, and the version
before it is the newest. Two things would contradict that, and then nothing is set aside: tables
have moved beyond what the older version shows, and no intent says that a write is going on. For
then the commit was acknowledged, and its manifest was damaged later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omnigraph.core.branches.branches import is_own
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.journal.intent import IntentLog
from omnigraph.core.layout import MANIFEST, fork_mark
from omnigraph.errors import Code, Corrupt
from omnigraph.runtime import telemetry
from omnigraph.store.tables import Pin, SetAside, Tables


class TornFiles:
    """Judges the torn files of one graph, and sets them aside where writing is allowed."""

    __slots__ = ("_intents", "_may_write", "_tables", "_told")

    def __init__(self, tables: Tables, intents: IntentLog, may_write: Callable[[], bool]) -> None:
        """Work on these tables; `may_write` is true if the handle may."""
        self._tables = tables
        self._intents = intents
        self._may_write = may_write
        self._told: set[tuple[str, int]] = set()  # what was logged, once

    def settle(self, snapshot: GraphVersion) -> None:
        """Judge the torn versions that reading a branch's newest snapshot stepped over."""
        torn = self._tables.torn_versions(MANIFEST, snapshot.fork)
        if not torn:
            return
        moved = self._moved(snapshot)
        if moved:
            file = self._tables.version_file(Pin(MANIFEST, torn[0], snapshot.fork))
            raise _acknowledged(snapshot, file, torn, moved)
        if self._may_write():
            self._tables.set_aside_torn_versions(MANIFEST, snapshot.fork)
            return
        if (snapshot.incarnation, torn[0]) in self._told:
            return
        self._told.add((snapshot.incarnation, torn[0]))
        telemetry.logger.warning(
            "version %s of the manifest of branch '%s' was left unfinished by a power cut, "
            "reading version %s",
            torn[0],
            snapshot.branch,
            snapshot.manifest_version,
        )

    def settle_records(self) -> None:
        """Set aside what is left of branches that were being made."""
        self._tables.set_aside_torn_records(MANIFEST)

    def records(self) -> tuple[SetAside, ...]:
        """The files that were set aside so far, oldest first."""
        return self._tables.quarantine.records()

    def _moved(self, snapshot: GraphVersion) -> list[str]:
        """The tables whose newest version is in no snapshot and in no intent."""
        planned = {
            (item.path, item.table_branch)
            for intent in self._intents.pending()
            for item in intent.tables
        }
        return sorted(
            key
            for key, pin in snapshot.tables.items()
            for fork, version in self._written_to(pin, snapshot)
            if (pin.path, fork) not in planned
            and self._tables.head(pin.path, fork, known=version) > version
        )

    def _written_to(
        self, pin: TablePin, snapshot: GraphVersion
    ) -> Iterator[tuple[str | None, int]]:
        """The forks in which the branch writes to a table, each with the version it began at."""
        if is_own(pin, snapshot):
            yield pin.table_branch, pin.version
            return
        mark = fork_mark(snapshot.incarnation)
        for fork in self._tables.fork_names(pin.path):
            made = self._tables.fork_info(pin.path, fork) if fork.startswith(f"{mark}.") else None
            if made is not None:
                yield fork, made.parent_version


def _acknowledged(
    snapshot: GraphVersion, file: str, torn: tuple[int, ...], moved: list[str]
) -> Corrupt:
    text = (
        f"version {torn[0]} of the manifest of branch '{snapshot.branch}' cannot be read "
        f"({file!r} is cut short), and it was acknowledged: {', '.join(moved)} moved with it. "
        "Restore the file from a copy. Without one, remove it: then version "
        f"{snapshot.manifest_version} can be read, and `omnigraph clone` makes a graph of it that "
        "can be written to"
    )
    return Corrupt(
        Code.CORRUPT,
        text,
        path=file,
        branch=snapshot.branch,
        versions=list(torn),
        tables=moved,
    )
