"""The records that Lance keeps of a table's forks, read and written one at a time.

Lance itself can only list them, which reads every one. A branch that is looked at before each of
its operations must not cost as much as there are branches, and one record that cannot be read must
not stand in the way of the others. A record that a power cut left torn is that of a fork which was
never acknowledged: there is none.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from omnigraph.errors import Code, Corrupt
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.integrity.torn_files import Condition, condition_of_record
from omnigraph.store.io.objects import Backend, ObjectInfo
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import ForkInfo
from omnigraph.store.versions.gateway import tree_path

__all__ = ["ForkRecords", "fork_info", "reference_path"]

IsUnfinished: TypeAlias = Callable[[str, int], bool]

_FOLDER: Final = "_refs/branches"
_SUFFIX: Final = ".json"


def reference_path(path: str, branch: str) -> str:
    """Return the path of the record of a fork."""
    return f"{path}/{_FOLDER}/{branch.replace('/', '%2F')}{_SUFFIX}"


class ForkRecords:
    """Forks by name. Thread-safe.

    ``is_unfinished`` is true if all versions in the folder of a fork are torn, looking at the
    given one first; None where storage never shows a part of an object.
    """

    def __init__(self, backend: Backend, is_unfinished: IsUnfinished | None) -> None:
        self._backend = backend
        self._is_unfinished = is_unfinished
        self._lock = threading.Lock()
        # Records that were read and are whole, as the listing shows them; likewise forks.
        self._checked: set[ObjectInfo] = set()
        self._sound: set[tuple[str, str, str]] = set()

    def find(self, path: str, branch: str) -> ForkInfo | None:
        """Return the record of one fork; None when there is none."""
        place = reference_path(path, branch)
        data = self._read(path, place)
        if data is None or _is_torn(data):
            return None
        info = _decoded(data, branch, place)
        return info if self._is_sound(path, branch, info) else None

    def _is_sound(self, path: str, branch: str, info: ForkInfo) -> bool:
        """True if a fork has a version: a power cut may have kept only the record."""
        key = (path, branch, info.identifier)
        with self._lock:
            if self._is_unfinished is None or key in self._sound:
                return True
        if self._is_unfinished(tree_path(path, branch), info.parent_version):
            telemetry.count("store.torn_fork")
            return False
        with self._lock:
            self._sound.add(key)
        return True

    def names(self, path: str) -> tuple[str, ...]:
        """List the names of all forks, sorted, with one call."""
        whole, _ = self._listed(path)
        return tuple(sorted(_name(info) for info in whole))

    def torn(self, path: str) -> tuple[str, ...]:
        """List the forks whose records a power cut left torn, or without a version."""
        _, torn = self._listed(path)
        return tuple(sorted(_name(info) for info in torn))

    def is_torn(self, path: str, branch: str) -> bool:
        """Return whether there is a record that stands for no fork."""
        place = reference_path(path, branch)
        return self._read(path, place) is not None and self.find(path, branch) is None

    def create(self, path: str, branch: str, record: Mapping[str, Any]) -> None:
        """Write the record of a new fork; EXISTS. This is what makes the fork exist."""
        place = reference_path(path, branch)
        data = json.dumps(record, indent=2).encode()
        storage_call(StorageCall.OBJECT_PUT_NEW, place, lambda: self._backend.put_new(place, data))

    def remove(self, path: str, branch: str) -> None:
        """Remove the record of a fork; NOT_FOUND. From then on there is no such fork."""
        place = reference_path(path, branch)
        storage_call(StorageCall.OBJECT_DELETE, place, lambda: self._backend.delete(place))

    def _listed(self, path: str) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
        """The records that stand for a fork, and those that a power cut left unfinished."""
        folder = f"{path}/{_FOLDER}"

        def look() -> tuple[list[ObjectInfo], list[ObjectInfo]]:
            with object_errors(StorageCall.TABLE_FORKS.value, folder):
                found = [info for info in self._backend.list(folder) if info.path.endswith(_SUFFIX)]
                torn = [info for info in found if self._listed_torn(path, info)]
            return [info for info in found if info not in torn], torn

        return storage_call(StorageCall.TABLE_FORKS, path, look)

    def _listed_torn(self, path: str, info: ObjectInfo) -> bool:
        """Look at a record and its fork on local disk, when it is new."""
        with self._lock:
            if self._is_unfinished is None or info in self._checked:
                return False
        try:
            data = self._backend.get(info.path)
        except FileNotFoundError:
            return False  # it was removed since; the next look finds that
        if _is_torn(data):
            return True
        try:
            fork = _decoded(data, _name(info), info.path)
        except Corrupt:
            return False  # not to be overlooked: reading it is an error
        if not self._is_sound(path, _name(info), fork):
            return True
        with self._lock:
            self._checked.add(info)
        return False

    def _read(self, path: str, place: str) -> bytes | None:
        def read() -> bytes:
            # `object_errors` knows errors of obstore; `storage_call` expects those of Lance.
            with object_errors(StorageCall.TABLE_FORKS.value, place):
                return self._backend.get(place)

        try:
            return storage_call(StorageCall.TABLE_FORKS, path, read)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return None


def _is_torn(data: bytes) -> bool:
    torn = condition_of_record(data) is Condition.TORN
    if torn:
        telemetry.count("store.torn_record")
    return torn


def _decoded(data: bytes, branch: str, place: str) -> ForkInfo:
    try:
        plain = json.loads(data)
        return fork_info(plain["parentBranch"], plain["parentVersion"], plain["identifier"])
    except (KeyError, TypeError, ValueError) as error:
        text = (
            f"the record of fork {branch!r} at {place} cannot be read ({error}): "
            "restore the file from a copy"
        )
        raise Corrupt(Code.CORRUPT, text, path=place) from error


def _name(info: ObjectInfo) -> str:
    return unquote(info.path.rpartition("/")[2].removesuffix(_SUFFIX))


def fork_info(parent_branch: str | None, parent_version: int, identifier: Any) -> ForkInfo:
    """Make the record of a fork from what Lance says about it."""
    steps = identifier["version_mapping"] if isinstance(identifier, Mapping) else identifier
    return ForkInfo(
        parent_branch,
        int(parent_version),
        "/".join(f"{version}:{part}" for version, part in steps),
    )
