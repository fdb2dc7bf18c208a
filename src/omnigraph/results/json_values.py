"""Values as JSON can say them. It imports little, so that the command line starts fast."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any


def json_value(value: Any) -> Any:
    """A value as JSON can say it: dates as texts, bytes in base 64."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"base64:{binascii.b2a_base64(value, newline=False).decode()}"
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return str(value)
