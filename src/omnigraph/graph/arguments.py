"""Arguments of callers who have no type checker: said to be wrong before they do harm."""

from __future__ import annotations

from omnigraph.errors import Code, InvalidInput

_WIDEST = 1 << 63


def whole_number(value: object, what: str, least: int) -> int:
    """The value, if it is a whole number from `least` on."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < _WIDEST:
        return value
    raise InvalidInput(
        Code.INPUT_INVALID, f"{what} is a whole number from {least} on, not {value!r:.80}"
    )


def instance(value: object, kind: type[object], what: str) -> None:
    """Refuse a value that is nothing of the kind."""
    if not isinstance(value, kind):
        raise InvalidInput(Code.INPUT_INVALID, f"{what}, not {type(value).__name__}")
