"""Checks of arguments, for callers who have no type checker."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, get_args

from omnigraph.core.commits.keys import CallKey
from omnigraph.core.journal.intent import WriterKind
from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.exec.mutate.mutator import CommitTerms
from omnigraph.lang.source import did_you_mean
from omnigraph.runtime.cancellation import CancelToken
from omnigraph.types import CommitId, CommitMessage, IdempotencyKey

_INT_END = 1 << 63
_TIMEOUT_S_END = 1e9
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def whole_number(value: object, what: str, least: int) -> int:
    """The value, if it is a whole number from `least` on."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < _INT_END:
        return value
    raise InvalidInput(
        Code.INPUT_INVALID, f"{what} is a whole number from {least} on, not {value!r:.80}"
    )


def one_of(choices: Any, value: object, what: str) -> Any:
    """The value, if it is one of the choices.

    Args:
        choices: A `Literal` type, or an enumeration of texts.
        value: What the caller gave.
        what: The name of the argument.

    Raises:
        InvalidInput: It is none of them; the message lists all.
    """
    known = get_args(choices) or tuple(each.value for each in choices)
    if isinstance(value, str) and value in known:
        # A member of a StrEnum is a text as well; further on it is plain.
        return str(value)
    near = did_you_mean(value, known) if isinstance(value, str) else None
    text = f"{what} {value!r:.80} is not one of {', '.join(known)}" + (f"; {near}" if near else "")
    raise InvalidInput(Code.INPUT_INVALID, text)


def seconds(value: object) -> float | None:
    """A timeout in seconds, if it is one; None for none."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 < value < _TIMEOUT_S_END:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InvalidInput(
        Code.INPUT_INVALID, f"a timeout is a number of seconds above 0, not {value!r:.80}"
    )


def token(value: object) -> CancelToken | None:
    """The token that cancels a call, if it is one; None for none."""
    if value is None or isinstance(value, CancelToken):
        return value
    text = f"cancel is an `omnigraph.CancelToken`, not {type(value).__name__}"
    raise InvalidInput(Code.INPUT_INVALID, text)


def instance(value: object, kind: type[object], what: str) -> None:
    """Refuse a value that is nothing of the kind."""
    if not isinstance(value, kind):
        raise InvalidInput(Code.INPUT_INVALID, f"{what}, not {type(value).__name__}")


def key_of(key: str | None, operation: str, *asked: JsonValue) -> CallKey | None:
    """The idempotency key of a call with a digest of its arguments, checked; None for none."""
    return None if key is None else CallKey.of(IdempotencyKey(key), operation, *asked)


def commit_terms(
    kind: WriterKind,
    *,
    actor: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    message: str | None,
) -> CommitTerms:
    """The terms on which a call commits, checked."""
    return CommitTerms(
        kind=kind,
        actor=actor,
        if_commit=None if if_commit is None else CommitId(if_commit),
        idempotency_key=None if idempotency_key is None else IdempotencyKey(idempotency_key),
        message=None if message is None else CommitMessage(message),
    )


def duration(value: object, what: str) -> timedelta | None:
    """A length of time: a `timedelta`, or a text such as `7d`; None for none."""
    if value is None:
        return None
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        with suppress(OverflowError):
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
    elif isinstance(value, timedelta) and value >= timedelta(0):
        return value
    text = f"{what} is a time such as 7d, 12h, 30m or 90s, or a timedelta, not {value!r:.80}"
    raise InvalidInput(Code.INPUT_INVALID, text)
