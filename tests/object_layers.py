"""Wrappers around one object store, for tests that watch or break just that one.

What must cover tables too goes through ``storage_call`` instead: arm a failpoint plan over
``StorageCall``, or count inside ``telemetry.counting()``.
"""

import builtins
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TypeVar, assert_never

from omnigraph.runtime.failpoints import Crash, Fault, InjectedFault, LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectInfo, ObjectStore
from omnigraph.store.io.storage_calls import StorageCall

T = TypeVar("T")


class _Layer(ABC):
    """An object store that passes every call on, through ``_around``."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self._lock = threading.Lock()

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object."""
        self._around(StorageCall.OBJECT_PUT_NEW, path, lambda: self._inner.put_new(path, data))

    def put(self, path: str, data: bytes) -> None:
        """Create or replace an object."""
        self._around(StorageCall.OBJECT_PUT, path, lambda: self._inner.put(path, data))

    def get(self, path: str) -> bytes:
        """Return the content of an object."""
        return self._around(StorageCall.OBJECT_GET, path, lambda: self._inner.get(path))

    def list(self, prefix: str) -> list[ObjectInfo]:
        """List the objects below a prefix."""
        return self._around(StorageCall.OBJECT_LIST, prefix, lambda: self._inner.list(prefix))

    def children(self, prefix: str) -> builtins.list[str]:
        """List the names right below a prefix."""
        return self._around(StorageCall.OBJECT_LIST, prefix, lambda: self._inner.children(prefix))

    def delete(self, path: str) -> None:
        """Remove an object."""
        self._around(StorageCall.OBJECT_DELETE, path, lambda: self._inner.delete(path))

    def exists(self, path: str) -> bool:
        """Tell whether an object is there."""
        return self._around(StorageCall.OBJECT_EXISTS, path, lambda: self._inner.exists(path))

    @abstractmethod
    def _around(self, call: StorageCall, place: str, action: Callable[[], T]) -> T:
        """Perform a call, or something in its place."""


class CountingObjects(_Layer):
    """Counts the calls that one object store receives, by name."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._calls: Counter[str] = Counter()

    @property
    def calls(self) -> dict[str, int]:
        """The calls so far, in name order."""
        with self._lock:
            return dict(sorted(self._calls.items()))

    def _around(self, call: StorageCall, place: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._calls[call.value] += 1
        return action()


class FaultyObjects(_Layer):
    """Lets the n-th call to one object store fail, in one of three ways; the others pass."""

    def __init__(self, inner: ObjectStore, fault: Fault, *, nth: int = 1) -> None:
        if nth < 1:
            raise ValueError("calls are counted from 1")
        super().__init__(inner)
        self._fault = fault
        self._nth = nth
        self._calls = 0

    @property
    def fired(self) -> bool:
        """True once the planned call has come."""
        with self._lock:
            return self._calls >= self._nth

    def _around(self, call: StorageCall, place: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._calls += 1
            due = self._calls == self._nth
        if not due:
            return action()
        match self._fault:
            case Crash(status=status):
                os._exit(status)
            case Refuse():
                applied = False
            case LostReply():
                action()
                applied = True
            case _:
                assert_never(self._fault)
        cause = InjectedFault(call, applied)
        raise StorageFailure(FailureKind.UNAVAILABLE, call.value, place, "injected") from cause
