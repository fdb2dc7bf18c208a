"""Setting torn files aside: they stop being in the way, and nothing is deleted without a trace.

A file moves to ``__set_aside/<id>/`` with its whole path below, and a record beside it says what it
was and why it was taken away. Copy first, then the record, then the removal: a crash in between
leaves the file where it was.

Only one process at a time sets files aside. As long as a torn file has its name, no other
file can get it, for names are given create-only; and once it has lost it, the next process sees
that. So what is removed is always the file that was judged. Only on local disk: object storage has
no torn files.
"""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import SystemClock
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root

__all__ = ["SET_ASIDE", "Quarantine", "SetAside"]

SET_ASIDE: Final = "__set_aside"
_RECORD: Final = "record.json"
_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A file that was set aside.

    Attributes:
        path: Where it was, relative to the root.
        kept_as: Where it is now.
        size: Its bytes.
        reason: Why it was taken away.
        at_us: When, in microseconds since the epoch.
    """

    path: str
    kept_as: str
    size: int
    reason: str
    at_us: int


class Quarantine:
    """The files of one root that were set aside. Thread-safe."""

    def __init__(self, root: Root, backend: Backend) -> None:
        self._root = root
        self._backend = backend
        self._clock = SystemClock()
        self._ids = UlidIds()

    def take(self, path: str, reason: str, is_due: Callable[[], bool]) -> SetAside | None:
        """Set a file aside.

        Args:
            path: The file, relative to the root.
            reason: Why.
            is_due: True if it still has to go; called while no other process sets files aside.

        Returns:
            What was set aside, or None if another process did it.
        """
        with self._alone():
            return self._take(path, reason) if is_due() else None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process or thread sets files aside. Dying ends it, too."""
        folder = self._root.local_path / SET_ASIDE
        folder.mkdir(exist_ok=True)
        with open(folder / _LOCK, "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _take(self, path: str, reason: str) -> SetAside:
        data = storage_call(StorageCall.OBJECT_GET, path, lambda: self._backend.get(path))
        folder = f"{SET_ASIDE}/{self._ids.new()}"
        taken = SetAside(
            path=path,
            kept_as=f"{folder}/{path}",
            size=len(data),
            reason=reason,
            at_us=self._clock.now_us(),
        )
        self._put(taken.kept_as, data)
        self._put(f"{folder}/{_RECORD}", _encode(taken))
        storage_call(StorageCall.OBJECT_DELETE, path, lambda: self._backend.delete(path))
        telemetry.count("store.set_aside")
        telemetry.logger.warning("set aside %s, kept as %s: %s", path, taken.kept_as, reason)
        return taken

    def records(self) -> tuple[SetAside, ...]:
        """List what was set aside, oldest first."""
        found = storage_call(
            StorageCall.OBJECT_LIST, SET_ASIDE, lambda: self._backend.list(SET_ASIDE)
        )
        depth = SET_ASIDE.count("/") + 2
        paths = sorted(
            info.path
            for info in found
            if info.path.endswith(f"/{_RECORD}") and info.path.count("/") == depth
        )
        return tuple(self._read(path) for path in paths)

    def _read(self, path: str) -> SetAside:
        data = storage_call(StorageCall.OBJECT_GET, path, lambda: self._backend.get(path))
        try:
            return _decode(json.loads(data))
        except (KeyError, TypeError, ValueError) as error:
            text = f"the record of a file that was set aside cannot be read: {error}"
            raise StorageFailure(
                FailureKind.UNKNOWN, StorageCall.OBJECT_GET.value, path, text
            ) from error

    def _put(self, path: str, data: bytes) -> None:
        storage_call(StorageCall.OBJECT_PUT_NEW, path, lambda: self._backend.put_new(path, data))


def _encode(taken: SetAside) -> bytes:
    plain = {
        "path": taken.path,
        "kept_as": taken.kept_as,
        "size": taken.size,
        "reason": taken.reason,
        "at_us": taken.at_us,
    }
    return json.dumps(plain, indent=1).encode()


def _decode(plain: Any) -> SetAside:
    return SetAside(
        path=str(plain["path"]),
        kept_as=str(plain["kept_as"]),
        size=int(plain["size"]),
        reason=str(plain["reason"]),
        at_us=int(plain["at_us"]),
    )
