"""The bounds on rows and bytes of one query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.errors import Code, LimitExceeded
from omnigraph.exec import tuning
from omnigraph.exec.memory import PYTHON_VALUE_BYTES, QUERY_BYTES_MAX, too_large

FRAME_ROWS_MAX: Final = 100_000_000
# A handle per variable, and what an operator needs beside them while it makes a row.
_HANDLE_BYTES: Final = 4
_ROW_BYTES: Final = 16
_KEY_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds on rows and bytes of one query.

    Attributes:
        frame_rows_max: How many rows there may be at once between two operators.
        bytes_max: How much memory its rows, a column or its result may take.
    """

    frame_rows_max: int = FRAME_ROWS_MAX
    bytes_max: int = QUERY_BYTES_MAX

    def check(self, rows: int, variables: int = 1) -> None:
        """Refuse so many rows at once, with handles of so many variables.

        Raises:
            LimitExceeded: Naming the bound.
        """
        if rows > self.frame_rows_max:
            text = (
                f"the query needs {rows} rows at once, at most {self.frame_rows_max} are allowed; "
                "make the pattern more selective, or raise the setting `frame_rows_max`"
            )
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, limit="frame_rows_max", most=self.frame_rows_max
            )
        if rows <= tuning.active.unmeasured_rows_max:
            return
        size = rows * (_ROW_BYTES + variables * _HANDLE_BYTES)
        if size > self.bytes_max:
            raise too_large(size, self.bytes_max, f"matching {rows} rows")

    def check_keys(self, rows: int, keys: int) -> None:
        """Refuse to sort or group so many rows by so many keys.

        Raises:
            LimitExceeded: Naming the bound.
        """
        size = rows * (_ROW_BYTES + keys * _KEY_BYTES)
        if size > self.bytes_max:
            raise too_large(size, self.bytes_max, f"sorting or grouping {rows} rows")

    def check_python(self, rows: int, columns: int) -> None:
        """Refuse to make so many rows of Python values.

        Raises:
            LimitExceeded: Naming the bound.
        """
        if rows <= tuning.active.unmeasured_rows_max:
            return
        size = rows * (1 + columns) * PYTHON_VALUE_BYTES
        if size > self.bytes_max:
            raise too_large(size, self.bytes_max, f"a result of {rows} rows as Python values")
