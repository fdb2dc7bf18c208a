"""Versions of tables that a power cut left torn: stepped over by readers, set aside by writers.

Only the newest versions can be torn: a version is written when the one before it has been read.
Readers that look for the head step over them, and they are remembered here until a handle for
writing sets them aside. Nothing is looked at unless opening a version failed, and nothing at all on
object storage, which has no such thing.
"""

import re
import threading
from typing import Final

from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.integrity.quarantine import Quarantine, SetAside
from omnigraph.store.integrity.torn_files import Condition, condition_of_manifest
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root
from omnigraph.store.versions.files import manifest_name, version_of
from omnigraph.store.versions.gateway import tree_path

__all__ = ["TornVersions"]

_NAME: Final = re.compile(r"\d{20}\.manifest")
_REASON: Final = "a version that a power cut left unfinished"


class TornVersions:
    """The torn versions below one root that were met so far. Thread-safe."""

    def __init__(self, root: Root, backend: Backend, quarantine: Quarantine) -> None:
        self._is_local = root.is_local
        self._backend = backend
        self._quarantine = quarantine
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str | None], tuple[int, ...]] = {}

    def known(self, path: str, branch: str | None) -> tuple[int, ...]:
        """Return the torn versions that were stepped over, newest first. Looks at nothing."""
        with self._lock:
            return self._known.get((path, branch), ())

    def forget(self, path: str, branch: str | None) -> None:
        """Forget what was stepped over: it is not there any more."""
        # Every reader comes by, and hardly ever is there anything.
        if self._known:
            with self._lock:
                self._known.pop((path, branch), None)

    def step_over(self, path: str, branch: str | None, failure: StorageFailure) -> int:
        """Return the newest version that is not torn, after opening the head failed.

        Raises:
            StorageFailure: The same failure, if the newest version is not torn; NOT_FOUND if all
                of them are, for then the table was never made.
        """
        if not self._is_local or failure.kind is FailureKind.UNAVAILABLE:
            raise failure
        place = tree_path(path, branch)
        torn: list[int] = []
        for version in self._newest_first(place):
            if not self.is_torn(place, version):
                if not torn:
                    break
                self._remember(path, branch, tuple(torn))
                return version
            torn.append(version)
        if not torn:
            raise failure
        self._remember(path, branch, tuple(torn))
        text = "all that is there is the unfinished first version"
        raise StorageFailure(
            FailureKind.NOT_FOUND, StorageCall.TABLE_HEAD.value, path, text
        ) from failure

    def is_unfinished(self, place: str, likely: int) -> bool:
        """Return whether all versions of a table are torn, looking at a likely one first.

        Where there is none, something else has happened: they were written before the record.
        """
        if not self._is_local or self._condition(place, likely) is Condition.WHOLE:
            return False
        versions = self._newest_first(place)
        return bool(versions) and all(self.is_torn(place, version) for version in versions)

    def is_torn(self, place: str, version: int) -> bool:
        """Return whether a version is there and torn."""
        return self._condition(place, version) is Condition.TORN

    def _condition(self, place: str, version: int) -> Condition | None:
        """The condition of a version file; None if there is none."""
        file = _file(place, version)

        def read() -> bytes:
            with object_errors(StorageCall.TABLE_HEAD.value, file):
                return self._backend.get(file)

        try:
            data = storage_call(StorageCall.TABLE_HEAD, file, read)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise
        return condition_of_manifest(data)

    def set_aside(self, path: str, branch: str | None) -> tuple[SetAside, ...]:
        """Set aside what was stepped over; return what was."""
        place = tree_path(path, branch)
        found = [self._take(place, version) for version in self.known(path, branch)]
        self.forget(path, branch)
        return tuple(taken for taken in found if taken is not None)

    def clear_way(self, place: str, version: int) -> bool:
        """Set a version aside that is in the way of a commit, if it is torn; whether it was."""
        return self._take(place, version) is not None

    def _take(self, place: str, version: int) -> SetAside | None:
        if not self._is_local or not self.is_torn(place, version):
            return None
        return self._quarantine.take(
            _file(place, version), _REASON, lambda: self.is_torn(place, version)
        )

    def _newest_first(self, place: str) -> list[int]:
        folder = f"{place}/_versions"

        def look() -> list[str]:
            with object_errors(StorageCall.TABLE_HEAD.value, folder):
                return [info.path.rpartition("/")[2] for info in self._backend.list(folder)]

        names = storage_call(StorageCall.TABLE_HEAD, folder, look)
        return sorted((version_of(name) for name in names if _NAME.fullmatch(name)), reverse=True)

    def _remember(self, path: str, branch: str | None, torn: tuple[int, ...]) -> None:
        telemetry.count("store.torn_version")
        with self._lock:
            self._known[path, branch] = torn


def _file(place: str, version: int) -> str:
    return f"{place}/_versions/{manifest_name(version)}"
