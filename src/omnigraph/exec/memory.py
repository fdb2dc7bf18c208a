"""How much memory one query may take at once.

Sizes are judged before the memory is taken, from what is known then: rows and the bytes of each.
"""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Code, LimitExceeded

QUERY_BYTES_MAX: Final = 4 << 30
UNBOUNDED: Final = 1 << 62
# What a value costs as an object of Python, without its text.
PYTHON_VALUE_BYTES: Final = 64


def check_bytes(size: int, most: int, what: str) -> None:
    """Refuse to take so much memory at once.

    Raises:
        LimitExceeded: Naming the bound and the setting.
    """
    if size > most:
        text = (
            f"{what} would take about {size} bytes at once, at most {most} are allowed; make the "
            "query more selective, or raise the setting `query_bytes_max`"
        )
        raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="query_bytes_max", most=most)
