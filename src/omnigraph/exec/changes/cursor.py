"""A place in the change feed of a branch, as a text that a client keeps."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass

from omnigraph.errors import Code, InvalidInput

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in the change feed of a branch.

    Attributes:
        branch: The branch.
        incarnation: Which of the branches that have had this name.
        commit: The last commit of which something was delivered; None for before the first.
        type_key: The type of the last change that was delivered of this commit; None when all
            of them were.
        entity_id: The id of its entity.
        types: The types that are delivered, as `node#` and their ids; None for all.
        operations: The operations that are delivered; None for all.
    """

    branch: str
    incarnation: str
    commit: str | None
    type_key: str | None = None
    entity_id: str | None = None
    types: tuple[str, ...] | None = None
    operations: tuple[str, ...] | None = None

    @property
    def position(self) -> tuple[str, str] | None:
        """The last change that was delivered of the commit; None when all of them were."""
        if self.type_key is None or self.entity_id is None:
            return None
        return self.type_key, self.entity_id

    def encode(self) -> str:
        """Return the text of the cursor."""
        data = {"v": _VERSION} | {
            key: value for key, value in asdict(self).items() if value is not None
        }
        raw = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: object) -> Cursor:
    """Return the cursor of a text.

    Raises:
        InvalidInput: The text is no cursor, or one of a newer version.
    """
    try:
        raw = str(text).encode("ascii")
        data = json.loads(
            base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        )
        version = data.pop("v")
        for name in ("types", "operations"):
            if name in data:
                data[name] = tuple(map(str, data[name]))
        cursor = Cursor(**{"commit": None, **data})
        known = all(isinstance(value, str | tuple | None) for value in asdict(cursor).values())
    except (ValueError, binascii.Error, AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(Code.INPUT_INVALID, "this text is no cursor of a change feed") from error
    if version != _VERSION or not known:
        raise InvalidInput(
            Code.INPUT_INVALID, "the cursor was made by a newer version of omnigraph"
        )
    return cursor
