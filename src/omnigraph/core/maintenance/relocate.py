"""Relocation: the forks of a graph that was moved or copied name their files where they are now.

Forks of tables come first and those of the manifest last, so a branch is refused until everything
that it needs is in order. There is nothing to be recovered: a run that died has done a part of the
files, and the next run does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.core.layout import MANIFEST, ORIGINAL_COMMITS, table_folders
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.runtime import telemetry
from omnigraph.store.forks.relocation import VersionFiles
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.versions.base_paths import RecordedPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocated:
    """The version files of forks that were looked at, those that were changed, what they named."""

    files: int
    changed: int
    recorded: tuple[str, ...]


def relocate_graph(repo: Repository, *, dry_run: bool) -> Relocated:
    """Make every fork name its files below the root of the graph; or only look."""
    with storage_errors():
        if dry_run:
            return _relocate(repo, dry_run=True)
        # No branch is made or dropped meanwhile: a file that is gone must not come back.
        with repo.creation.alone():
            found = _relocate(repo, dry_run=False)
        repo.tables.forget_all()
        return found


def _relocate(repo: Repository, *, dry_run: bool) -> Relocated:
    files = VersionFiles(repo.objects, repo.root.uri, RecordedPaths(repo.root).is_root)
    looked = changed = 0
    recorded: set[str] = set()
    for table in _tables(repo.objects):
        for path in files.of(table):
            repo.creation.still_alone()
            found = files.relocate(table, path, dry_run=dry_run)
            looked += 1
            changed += bool(found.roots)
            recorded |= found.roots
    telemetry.count("relocate.files", changed)
    return Relocated(files=looked, changed=changed, recorded=tuple(sorted(recorded)))


def _tables(objects: ObjectStore) -> Iterator[str]:
    """The paths of all tables that may have forks, the manifest last."""
    for folder in table_folders():
        for name in objects.children(folder):
            yield f"{folder}/{name}"
    yield ORIGINAL_COMMITS
    yield MANIFEST
