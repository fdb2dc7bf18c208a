"""Arguments of callers who have no type checker: said to be wrong before they do harm."""

from __future__ import annotations

from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.cancellation import CancelToken

_WIDEST = 1 << 63
_LONGEST_S = 1e9


def whole_number(value: object, what: str, least: int) -> int:
    """The value, if it is a whole number from `least` on."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < _WIDEST:
        return value
    raise InvalidInput(
        Code.INPUT_INVALID, f"{what} is a whole number from {least} on, not {value!r:.80}"
    )


def seconds(value: object) -> float | None:
    """A timeout in seconds, if it is one; None for none."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 < value < _LONGEST_S:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InvalidInput(
        Code.INPUT_INVALID, f"a timeout is a number of seconds above 0, not {value!r:.80}"
    )


def token(value: object) -> CancelToken | None:
    """What cancels a call, if it is such a thing; None for none."""
    if value is None or isinstance(value, CancelToken):
        return value
    text = f"cancel is an `omnigraph.CancelToken`, not {type(value).__name__}"
    raise InvalidInput(Code.INPUT_INVALID, text)


def instance(value: object, kind: type[object], what: str) -> None:
    """Refuse a value that is nothing of the kind."""
    if not isinstance(value, kind):
        raise InvalidInput(Code.INPUT_INVALID, f"{what}, not {type(value).__name__}")
