"""What one query may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.errors import Code, LimitExceeded

FRAME_ROWS_MAX: Final = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one query may use.

    Attributes:
        frame_rows_max: How many rows there may be at once between two operators.
    """

    frame_rows_max: int = FRAME_ROWS_MAX

    def check(self, rows: int) -> None:
        """Refuse so many rows at once.

        Raises:
            LimitExceeded: Naming the bound.
        """
        if rows > self.frame_rows_max:
            text = (
                f"the query needs {rows} rows at once, at most {self.frame_rows_max} are allowed; "
                "make the pattern more selective"
            )
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, limit="frame_rows_max", most=self.frame_rows_max
            )
