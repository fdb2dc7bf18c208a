"""The one point that every storage call passes.

``storage_call`` counts the call by name, lets a test make it fail, and translates foreign errors.
Arm a plan over ``StorageCall`` and "the n-th storage call" is refused, loses its reply or ends the
process, whether it is about an object or a table. Counts go to the enclosing telemetry blocks.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeVar

from omnigraph.runtime import failpoints, telemetry
from omnigraph.store.failures import is_panic, lance_errors, object_errors

__all__ = ["StorageCall", "storage_call"]

T = TypeVar("T")
_OBJECT: Final = "object."


@failpoints.catalogue
class StorageCall(StrEnum):
    """Every kind of call to storage. The value is its name in counters and failures."""

    OBJECT_PUT_NEW = "object.put_new"
    OBJECT_PUT = "object.put"
    OBJECT_GET = "object.get"
    OBJECT_LIST = "object.list"
    OBJECT_DELETE = "object.delete"
    OBJECT_EXISTS = "object.exists"
    TABLE_OPEN = "table.open"
    TABLE_HEAD = "table.head"
    TABLE_TRANSACTION = "table.transaction"
    TABLE_FORKS = "table.forks"
    TABLE_SCAN = "table.scan"
    TABLE_TAKE = "table.take"
    TABLE_WRITE = "table.write"
    TABLE_ERASE = "table.erase"
    TABLE_INDEX = "table.index"
    TABLE_COMPACT = "table.compact"
    TABLE_DRAFT = "table.draft"
    TABLE_SYNC = "table.sync"
    TABLE_CREATE = "table.create"
    TABLE_COMMIT = "table.commit"
    TABLE_PLACE = "table.place"
    TABLE_FORK = "table.fork"
    TABLE_DROP_FORK = "table.drop_fork"


def storage_call(call: StorageCall, place: str, action: Callable[[], T]) -> T:
    """Perform one storage call: counted, open to injected faults, its errors translated."""
    telemetry.count(call.value)
    try:
        return failpoints.call(call, action)
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        # Only with an error in hand: a context around every call would cost too much.
        translated = object_errors if call.value.startswith(_OBJECT) else lance_errors
        with translated(call.value, place):
            raise
