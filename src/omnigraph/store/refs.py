"""The records that Lance keeps of a table's forks, read one at a time.

Lance itself can only list them, which reads every one. A branch that is looked at before each of
its operations must not cost as much as there are branches.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.model import ForkInfo
from omnigraph.store.objects import Backend

__all__ = ["References", "fork_info"]

_FOLDER: Final = "_refs/branches"
_SUFFIX: Final = ".json"


class References:
    """Forks by name."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def find(self, path: str, branch: str) -> ForkInfo | None:
        """Return the record of one fork; None when there is none."""
        place = f"{path}/{_FOLDER}/{branch.replace('/', '%2F')}{_SUFFIX}"

        def read() -> bytes:
            # The door for objects knows obstore's errors; the one around it is Lance's.
            with object_errors(StorageCall.TABLE_FORKS.value, place):
                return self._backend.get(place)

        try:
            plain = json.loads(storage_call(StorageCall.TABLE_FORKS, path, read))
            return fork_info(plain["parentBranch"], plain["parentVersion"], plain["identifier"])
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return None
        except (KeyError, TypeError, ValueError) as error:
            text = f"the record of fork {branch!r} cannot be read: {error}"
            raise StorageFailure(
                FailureKind.UNKNOWN, StorageCall.TABLE_FORKS.value, path, text
            ) from error

    def names(self, path: str) -> tuple[str, ...]:
        """List the names of all forks, sorted, with one call that reads none of them."""
        folder = f"{path}/{_FOLDER}"

        def look() -> list[str]:
            with object_errors(StorageCall.TABLE_FORKS.value, folder):
                return [info.path for info in self._backend.list(folder)]

        found = storage_call(StorageCall.TABLE_FORKS, path, look)
        files = [name.rpartition("/")[2] for name in found]
        return tuple(
            sorted(unquote(file.removesuffix(_SUFFIX)) for file in files if file.endswith(_SUFFIX))
        )


def fork_info(parent_branch: str | None, parent_version: int, identifier: Any) -> ForkInfo:
    """Make the record of a fork from what Lance says about it."""
    steps = identifier["version_mapping"] if isinstance(identifier, Mapping) else identifier
    return ForkInfo(
        parent_branch,
        int(parent_version),
        "/".join(f"{version}:{part}" for version, part in steps),
    )
