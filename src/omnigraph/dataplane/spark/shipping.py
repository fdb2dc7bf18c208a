"""Our own code as one file that Spark hands to its workers."""

from __future__ import annotations

import io
import os
import threading
import weakref
import zipfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import omnigraph
from omnigraph.dataplane.spark import tuning

_PACKAGES: Final = ("omnigraph", "pyspark_omnigraph")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_lock: Final = threading.Lock()
_shipped: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def ship(session: Any, cache: Path) -> None:
    """See to it that workers of a session run the code that runs here. Once per session."""
    with _lock:
        if session in _shipped:
            return
        session.addArtifact(str(packed(cache)), pyfile=True)
        _shipped.add(session)


def packed(cache: Path, source: Path | None = None) -> Path:
    """The package as an archive in the cache, named by its content; made if it is not there.

    Args:
        cache: The folder.
        source: The folder that holds the package; that which this code was loaded from if None.
    """
    content = _archive(source or Path(omnigraph.__file__).parent.parent)
    path = cache / f"omnigraph-{blake2b(content, digest_size=10).hexdigest()}.zip"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}.new")
        new.write_bytes(content)
        new.replace(path)
        drop_older(cache, "omnigraph-*.zip", tuning.active.archives_kept_max)
    return path


def drop_older(folder: Path, pattern: str, kept: int) -> None:
    """Delete all but the newest files of a pattern. A file in use is open, and stays readable."""

    def age(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    for path in sorted(folder.glob(pattern), key=age, reverse=True)[kept:]:
        path.unlink(missing_ok=True)


def _archive(source: Path) -> bytes:
    """The archive of the code: the same bytes for the same code, at any time and place."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path in _files(source):
            entry = zipfile.ZipInfo(path.relative_to(source).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def _files(source: Path) -> Iterator[Path]:
    for package in _PACKAGES:
        found = sorted((source / package).rglob("*"))
        yield from (path for path in found if path.is_file() and path.suffix != ".pyc")
