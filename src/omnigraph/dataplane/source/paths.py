"""Finds the files that a path, a folder, a pattern or an address stands for."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.source.model import FileInput
from omnigraph.errors import Code, Conflict, NotFound
from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.io.streams import exists, list_inputs, read_stream, stream_size
from omnigraph.store.root import Root

_MAGIC: Final = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that the caller named.

    Attributes:
        uri: Its address, absolute.
        name: As the user wrote it, as far as possible.
        size: Bytes; None for what can be read only once, such as a pipe.
        modified_ns: When it was last changed, if it is a file of this machine.
    """

    uri: str
    name: str
    size: int | None
    modified_ns: int | None = None


def find_files(text: str, storage_options: Mapping[str, str]) -> tuple[FoundFile, ...]:
    """The files that a text stands for, sorted by name.

    A file stands for itself, a folder for everything below it whose name, and whose folders'
    names, begin with neither `_` nor `.`. A pattern has `*`, `?`, `[...]` and `**`; it stands
    for files only, and no wildcard in front stands for a `_` or `.`: there lies what others
    have not finished, or say besides.

    Raises:
        NotFound: There is no such file, or none in the folder, or none that matches.
        InvalidInput: The address is not one of a known kind.
        Unavailable: Storage failed.
    """
    with reading(text):
        found = _remote(text, storage_options) if is_remote(text) else _local(text)
    if not found:
        fault = "nothing matches" if _MAGIC.search(text) else "there is no file in it to load"
        raise NotFound(Code.FILE_NOT_FOUND, f"{text}: {fault}", path=text)
    return found


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Translate the failures of storage while an input is read.

    Raises:
        NotFound: It is not there.
        Unavailable: Storage failed.
    """
    try:
        yield
    except StorageFailure as failure:
        if failure.kind is FailureKind.NOT_FOUND:
            raise missing(name) from failure
        raise public(failure) from failure


def check_unchanged(item: FileInput) -> None:
    """Refuse a file that has changed since the load began.

    Raises:
        Conflict: It has changed.
        NotFound: It is gone.
    """
    if item.is_spooled or item.size is None:
        return
    if item.modified_ns is None and not is_remote(item.uri):
        return  # a copy of our own
    if is_remote(item.uri):
        is_same = stream_size(item.uri, item.storage_options) == item.size
    else:
        status = _status(item.uri)
        if status is None:
            raise missing(item.name)
        is_same = (status.st_size, status.st_mtime_ns) == (item.size, item.modified_ns)
    if not is_same:
        raise _changed(item.name)


def read_whole(like: FileInput, name: str, uri: str, size: int, modified_ns: int | None) -> bytes:
    """Read a small file as it was when the load began.

    Args:
        like: A file of the same storage.
        name: How messages call it.
        uri: Its address.
        size: Its bytes then.
        modified_ns: When it had last been changed then.

    Raises:
        Conflict: It has changed.
        NotFound: It is gone.
        Unavailable: Storage failed.
    """
    try:
        data, changed_ns = read_stream(uri, like.storage_options, size=size)
    except StorageFailure:
        # Only with an error in hand: a context around every file would cost too much.
        with reading(name):
            raise
    if not like.is_spooled and (
        len(data) != size or (modified_ns is not None and changed_ns != modified_ns)
    ):
        raise _changed(name)
    return data


def _changed(name: str) -> Conflict:
    text = f"{name} has changed while it was read; nothing of it was loaded"
    return Conflict(Code.CONFLICT, text, path=name)


def missing(name: str) -> NotFound:
    """The error for a file that is not there."""
    return NotFound(Code.FILE_NOT_FOUND, f"{name}: there is no such file", path=name)


def is_remote(text: str) -> bool:
    """True if an address is one of object storage."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() != "file"


# -- this machine ----------------------------------------------------------------------------------


def _local(text: str) -> tuple[FoundFile, ...]:
    path = str(Root.parse(text).local_path)
    # What the user wrote, except for a scheme or a tilde.
    shown = text if not text.startswith(("file:", "~")) else path
    status = _status(path)
    if status is None:
        if not _MAGIC.search(path):
            raise missing(text)
        return tuple(sorted(_matches(shown), key=lambda found: found.name))
    if not stat.S_ISDIR(status.st_mode):
        return (_file(path, shown, status),)
    inside, shown_inside = os.path.join(path, ""), os.path.join(shown, "")
    return tuple(
        FoundFile(
            uri=info.uri,
            name=shown_inside + relative,
            size=None if info.modified_ns is None else info.size,
            modified_ns=info.modified_ns,
        )
        for info in list_inputs(path)
        if not _is_hidden(relative := info.uri.removeprefix(inside))
    )


def _matches(pattern: str) -> Iterator[FoundFile]:
    wanted = re.compile(_pattern(os.path.normpath(pattern)))
    for name in glob.iglob(pattern, recursive=True):
        if not wanted.fullmatch(os.path.normpath(name)):
            continue
        status = _status(name)  # None for a link to nothing
        if status is not None and not stat.S_ISDIR(status.st_mode):
            yield _file(os.path.abspath(name), name, status)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        with object_errors(StorageCall.OBJECT_EXISTS.value, path):
            raise


def _file(path: str, shown: str, status: os.stat_result) -> FoundFile:
    if not stat.S_ISREG(status.st_mode):
        return FoundFile(uri=path, name=shown, size=None)
    return FoundFile(uri=path, name=shown, size=status.st_size, modified_ns=status.st_mtime_ns)


def _is_hidden(relative: str) -> bool:
    return relative.startswith(("_", ".")) or "/_" in relative or "/." in relative


# -- object storage --------------------------------------------------------------------------------


def _remote(text: str, options: Mapping[str, str]) -> tuple[FoundFile, ...]:
    if exists(text, options):
        return (FoundFile(uri=text, name=text, size=stream_size(text, options)),)
    magic = _MAGIC.search(text)
    folder = text[: text.rindex("/", 0, magic.start()) + 1] if magic else text.rstrip("/") + "/"
    wanted = re.compile(_pattern(text[len(folder) :])) if magic else None
    found = tuple(
        FoundFile(uri=info.uri, name=info.uri, size=info.size)
        for info in list_inputs(folder, options)
        if _is_wanted(info.uri.removeprefix(folder), wanted)
    )
    if not found and not magic and not list_inputs(folder, options):
        raise missing(text)
    return found


def _is_wanted(relative: str, wanted: re.Pattern[str] | None) -> bool:
    return not _is_hidden(relative) if wanted is None else bool(wanted.fullmatch(relative))


def _pattern(text: str) -> str:
    """A glob as a regular expression, by the rules of local ones."""
    parts = text.split("/")
    found = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            found += r"(?:[^/._][^/]*/)*" + (r"[^/._][^/]*" if is_last else "")
        else:
            found += _segment(part) + ("" if is_last else "/")
    return found


def _segment(text: str) -> str:
    # A wildcard in front does not stand for the beginning of a hidden name.
    found = r"(?![._])" if text[:1] in {"*", "?", "["} else ""
    position = 0
    while position < len(text):
        char = text[position]
        end = text.find("]", position + 2) if char == "[" else -1
        if char == "*":
            found += r"[^/]*"
        elif char == "?":
            found += r"[^/]"
        elif end > 0:
            inner = text[position + 1 : end].replace("\\", r"\\")
            found += "[" + ("^" + inner[1:] if inner[0] == "!" else re.escape(inner[0]) + inner[1:])
            found += "]"
            position = end
        else:
            found += re.escape(char)
        position += 1
    return found
