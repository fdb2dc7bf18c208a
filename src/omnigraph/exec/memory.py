"""The bound on the memory that one query takes at once.

Sizes are judged before the memory is taken, from what is known then: rows and the bytes of each.
"""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Code, LimitExceeded

QUERY_BYTES_MAX: Final = 4 << 30
UNBOUNDED: Final = 1 << 62
# What a value costs as an object of Python, without its text.
PYTHON_VALUE_BYTES: Final = 64


def too_large(size: int, most: int, what: str) -> LimitExceeded:
    """The error of an operation that needs so much memory at once; it names bound and setting."""
    text = (
        f"{what} would take about {size} bytes at once, at most {most} are allowed; make the "
        "query more selective, or raise the setting `query_bytes_max`"
    )
    return LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="query_bytes_max", most=most)
