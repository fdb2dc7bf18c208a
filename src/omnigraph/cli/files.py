"""Reads the files that the user names, and replaces them atomically."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from omnigraph.cli.nearest import nearest
from omnigraph.errors import (
    Code,
    Corrupt,
    Forbidden,
    InvalidInput,
    LimitExceeded,
    NotFound,
    Unavailable,
)
from omnigraph.runtime.settings import Settings

if TYPE_CHECKING:
    from omnigraph.lang.catalog.model import Catalog

SUFFIXES: Final = (".pg", ".gq")
STDIN: Final = "<stdin>"
_DASH: Final = Path("-")


def shown(path: Path) -> str:
    """The name of a file in messages; a dash is standard input."""
    return STDIN if path == _DASH else str(path)


def read_text(path: Path, settings: Settings) -> str:
    """The text of a file: UTF-8, with the line ends of any system."""
    return decode(read_bytes(path, settings), shown(path))


def read_bytes(path: Path, settings: Settings) -> bytes:
    """The bytes of a file, or of standard input, if not longer than a source may be."""
    if path == _DASH:
        return read_stdin(settings)
    with _failures("read", path), path.open("rb") as file:
        return _bounded(file, str(path), settings)


def read_stdin(settings: Settings) -> bytes:
    """The bytes of standard input, bounded likewise."""
    with _failures("read", Path(STDIN)):
        return _bounded(sys.stdin.buffer, STDIN, settings)


def decode(content: bytes, name: str) -> str:
    """Bytes as source text; a byte order mark is dropped, every line end becomes a line feed."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = (
            f"{name}: line {line} is not UTF-8 (byte 0x{content[error.start]:02x} at offset "
            f"{error.start}); save the file as UTF-8"
        )
        raise InvalidInput(Code.INPUT_INVALID, message, path=name) from error
    return text.replace("\r\n", "\n")


def read_catalog(path: Path, settings: Settings, *, accepted: bool = False) -> Catalog:
    """The catalog of a schema, given as `.pg` or as the canonical `.json` of a catalog."""
    # Commands that read other files do not wait for the compiler.
    from omnigraph.lang import compile_schema
    from omnigraph.lang.catalog.canonical import loads

    text = read_text(path, settings)
    if path.suffix != ".json":
        return compile_schema(text, shown(path), accepted=accepted)
    try:
        return loads(text)
    except Corrupt as error:
        # Damage in a graph's own files is one thing; here the user chose the file.
        message = f"{path} does not hold a catalog: {error}"
        raise InvalidInput(Code.SCHEMA_INVALID, message, path=str(path)) from error


def sources(paths: Iterable[Path]) -> list[Path]:
    """The `.pg` and `.gq` files among and below the paths, each once, folders in name order."""
    found: dict[Path, None] = {}
    for path in paths:
        for file in _below(path) if path.is_dir() else (path,):
            found.setdefault(file)
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        # Hidden folders belong to tools. Sorted in place, since that also orders the walk.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(names) if name.endswith(SUFFIXES)):
            # Not a pipe or a device: reading one might never end.
            if path.is_file():
                yield path


def replace(path: Path, content: bytes) -> None:
    """Put new content in the place of a file in one step, keeping its permissions.

    Readers see the old file or the new one; after a failure it is the old one.
    A symbolic link stays a link.
    """
    # Few commands write files, and the others should not wait for them.
    import shutil
    import tempfile

    target = Path(os.path.realpath(path))
    with _failures("write", path):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(target, name)
            os.replace(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise


def _bounded(file: BinaryIO, name: str, settings: Settings) -> bytes:
    most = settings.source_bytes_max
    content = file.read(most + 1)
    if len(content) > most:
        message = (
            f"{name} is longer than {most} bytes, so it is probably not a schema or a query; "
            "OMNIGRAPH_SOURCE_BYTES_MAX raises the limit"
        )
        raise LimitExceeded(Code.LIMIT_EXCEEDED, message, path=name, source_bytes_max=most)
    return content


@contextmanager
def _failures(verb: str, path: Path) -> Iterator[None]:
    """Failures of the file system, by what the user can do about them."""
    try:
        yield
    except FileNotFoundError as error:
        message = f"no such file: {path}; {_advice(path)}"
        raise NotFound(Code.FILE_NOT_FOUND, message, path=str(path)) from error
    except IsADirectoryError as error:
        message = f"{path} is a folder; name a file in it"
        raise InvalidInput(Code.INPUT_INVALID, message, path=str(path)) from error
    except PermissionError as error:
        message = f"not allowed to {verb} {path}; check the permissions of the file and its folder"
        raise Forbidden(Code.FORBIDDEN, message, path=str(path)) from error
    except OSError as error:
        message = f"cannot {verb} {path}: {error.strerror or error}"
        raise Unavailable(Code.UNAVAILABLE, message, path=str(path)) from error


def _advice(path: Path) -> str:
    """Advice on a path that does not exist."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    with suppress(OSError):
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
        if near := nearest(path.name, names, cutoff=0.8):
            return f"did you mean {folder / near}?"
    return "check the spelling; paths start at the current folder"
