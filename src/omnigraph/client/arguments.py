"""Arguments of calls: as they are sent to a server, or refused because a server has no use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, overload

from omnigraph.errors import Code, InvalidInput
from omnigraph.types import IdempotencyKey


def keyed(key: str | None) -> dict[str, str]:
    """The header that names an operation."""
    if key is None:
        return {}
    if not IdempotencyKey(key).isascii():
        text = "through a server, an idempotency key is plain ASCII"
        raise InvalidInput(Code.NAME_INVALID, text)
    return {"idempotency-key": key}


@overload
def at_text(at: str | datetime) -> str: ...
@overload
def at_text(at: None) -> None: ...
@overload
def at_text(at: str | datetime | None) -> str | None: ...
def at_text(at: str | datetime | None) -> str | None:
    """A revision as a text; a time in ISO 8601."""
    return at.isoformat() if isinstance(at, datetime) else at


def only_local(given: Mapping[str, Any]) -> None:
    """Refuse arguments that only embedded graphs have.

    Raises:
        InvalidInput: There is one that says more than its default.
    """
    neutral: tuple[object, ...] = (None, "auto", False, 1000)
    for name, value in given.items():
        # A listener of progress gets no calls from a server, which loses no data.
        if name != "progress" and value not in neutral:
            text = f"`{name}` is for embedded graphs, not for one behind a server"
            raise InvalidInput(Code.INPUT_INVALID, text, argument=name)
