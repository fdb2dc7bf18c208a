"""The tasks of a copy: files are copied as they are, and read again to compare them.

A version file of a fork names the places of other files; it gets those of the target. A task may
run twice: what it writes appears as a whole, and is the same each time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from omnigraph.core.maintenance.copy_plan import CopyFile
from omnigraph.core.storage_errors import damaged, storage_errors
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.forks.relocation import relocated
from omnigraph.store.integrity.version_checksums import damage_in
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.io.streams import open_input, open_output
from omnigraph.store.root import Root

_CHUNK_BYTES: Final = 8 << 20
_TASK_BYTES: Final = 64 << 20
_TASK_FILES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """Files to copy from one root to another. Picklable."""

    source: Root
    target: Root
    files: tuple[CopyFile, ...]
    present: frozenset[str]  # those that an earlier attempt brought there, in their full size
    verify: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReceipt:
    """The result of a task."""

    bytes: int
    copied: int
    missing: tuple[str, ...]  # gone from the source, or of another size than before


def gather(files: Iterable[CopyFile]) -> list[tuple[CopyFile, ...]]:
    """Files in groups that are worth a task."""
    groups: list[tuple[CopyFile, ...]] = []
    group: list[CopyFile] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.size
        if size >= _TASK_BYTES or len(group) >= _TASK_FILES:
            groups.append(tuple(group))
            group, size = [], 0
    return [*groups, tuple(group)] if group else groups


def copy_files(task: CopyTask) -> CopyReceipt:
    """Copy the files of one task."""
    missing = []
    copied = size = 0
    objects = open_objects(task.source), open_objects(task.target)
    with storage_errors():
        for file in task.files:
            try:
                if not file.is_fixed:
                    _copy_small(task, file, *objects)
                elif file.path in task.present and (not task.verify or _is_equal(task, file)):
                    continue
                elif not _copy_large(task, file):
                    missing.append(file.path)
                    continue
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                missing.append(file.path)
                continue
            copied += 1
            size += file.size
    return CopyReceipt(bytes=size, copied=copied, missing=tuple(missing))


def _copy_small(task: CopyTask, file: CopyFile, source: ObjectStore, target: ObjectStore) -> None:
    data = source.get(file.path)
    if file.path.endswith(".manifest") and (reason := damage_in(data)) is not None:
        raise damaged(file.path, reason)
    if file.table is not None:
        try:
            data, _ = relocated(data, file.table, task.target.uri, lambda _: False)
        except ValueError as error:
            raise damaged(file.path, str(error)) from error
    target.put(file.path, data)
    if task.verify and target.get(file.path) != data:
        raise _differs(task.target, file.path)


def _copy_large(task: CopyTask, file: CopyFile) -> bool:
    """Copy a file; False if it has another size than it had, so that it is no published one."""
    checksum = size = 0
    options = task.source.storage_options
    with (
        open_input(task.source.join(file.path), options, size=file.size) as input_,
        open_output(task.target.join(file.path), task.target.storage_options) as output,
    ):
        while data := input_.read(_CHUNK_BYTES):
            output.write(data)
            checksum = zlib.crc32(data, checksum)
            size += len(data)
    if size != file.size:
        return False
    if task.verify and _checksum(task.target, file) != checksum:
        raise _differs(task.target, file.path)
    return True


def _is_equal(task: CopyTask, file: CopyFile) -> bool:
    return _checksum(task.source, file) == _checksum(task.target, file)


def _checksum(root: Root, file: CopyFile) -> int:
    checksum = 0
    with open_input(root.join(file.path), root.storage_options, size=file.size) as input_:
        while data := input_.read(_CHUNK_BYTES):
            checksum = zlib.crc32(data, checksum)
    return checksum


def _differs(target: Root, path: str) -> Exception:
    return damaged(path, f"what was written to {target.uri} reads back differently")
