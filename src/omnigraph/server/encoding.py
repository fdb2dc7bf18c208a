"""JSON of answers."""

from __future__ import annotations

from typing import Any, Final

import msgspec


def _text(value: object) -> str:
    """A checked name as plain text: msgspec takes no subclasses of `str`."""
    if isinstance(value, str):
        return str.__str__(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_text)


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return _ENCODER.encode(value)
