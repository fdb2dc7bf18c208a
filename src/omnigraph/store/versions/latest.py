"""Finding the newest version of a table without listing all of them.

Listing takes as long as the history is, and that is how Lance looks on local disk. But it also
leaves a note there, of the version that it committed last. The note is written after the commit,
so it may be late, and a power cut may lose or garble it. So it only says where to look: a version
is the newest if it is there and the next one is not.

That conclusion needs versions without gaps. A clean-up makes gaps, below versions that were the
newest minutes ago. Should a note be so late that it points there, then the folder has changed since
it was written, and the note is not used. A version that was remembered is used for a minute.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.versions.files import manifest_name

__all__ = ["NOTE", "is_passed", "near_head", "noted_head", "stored_note"]

NOTE: Final = "latest_version_hint.json"
# The folder changes once more when the note gets its name. Some file systems count in 2 s.
_SAME_MOMENT_NS: Final = 2_000_000_000


def near_head(known: int, exists: Callable[[str], bool]) -> int | None:
    """Return the newest version if it is ``known`` or one of the next few.

    Args:
        known: A version that is or was the newest.
        exists: True if a file is there, by its name in the folder of versions.
    """
    for version in range(known, known + tuning.active.probed_versions_max):
        if not exists(manifest_name(version + 1)):
            return version
    return None


def noted_head(folder: Path) -> int | None:
    """Return the newest version in a local folder of versions; None if that takes a listing."""
    noted = _note(folder)

    def exists(name: str) -> bool:
        return os.path.isfile(folder / name)

    if noted is None or not exists(manifest_name(noted)):
        return None
    return near_head(noted, exists)


def _note(folder: Path) -> int | None:
    """Return the noted version, if the note is there and the last thing that changed."""
    try:
        with open(folder / NOTE, "rb") as file:
            noted_at = os.fstat(file.fileno()).st_mtime_ns
            version = _noted_in(file.read())
        changed_at = os.stat(folder).st_mtime_ns
    except OSError:
        return None
    return None if abs(changed_at - noted_at) > _SAME_MOMENT_NS else version


def _noted_in(data: bytes) -> int | None:
    """Return the version that a note names; None if it is garbled."""
    try:
        plain = json.loads(data)
    except ValueError:
        return None
    version = plain.get("version") if isinstance(plain, dict) else None
    return version if isinstance(version, int) else None


def stored_note(backend: Backend, folder: str) -> int | None:
    """Return the version that the note of a stored folder names, if there is such a note."""
    place = f"{folder}/{NOTE}"
    try:
        data = storage_call(StorageCall.OBJECT_GET, place, lambda: backend.get(place))
    except StorageFailure as failure:
        if failure.kind is FailureKind.NOT_FOUND:
            return None
        raise
    return _noted_in(data)


def is_passed(backend: Backend, place: str, version: int) -> bool:
    """True if a version has got its place below others that are older; it is removed then."""
    folder = f"{place}/_versions"
    own = f"{folder}/{manifest_name(version)}"
    found = storage_call(StorageCall.OBJECT_LIST, folder, lambda: backend.list(folder))
    placed_at = next((info.modified_us for info in found if info.path == own), 0)
    # Versions count down in the names of their files.
    if not any(info.path < own and info.modified_us < placed_at for info in found):
        return False
    storage_call(StorageCall.OBJECT_DELETE, own, lambda: backend.delete(own))
    return True
