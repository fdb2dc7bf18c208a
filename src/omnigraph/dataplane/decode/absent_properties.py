"""Finds the lines that do not name a property, as opposed to naming it null."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.decode.json_line import read_line
from omnigraph.dataplane.decode.lines import Lines, Places
from omnigraph.dataplane.decode.model import DATA, TYPE_FIELDS

# Names that also stand around the data; there their value is not null.
_AROUND = frozenset({DATA, *TYPE_FIELDS.values()})
# A letter, digit or underscore, needlessly escaped: so a line may hide the name of a property.
_HIDING = re.compile(rb"\\u00[3-7]")


class AbsentProperties:
    """Looks for the names of some properties in lines that are known to be in order.

    In such a line the quoted name of a property, followed by a colon, is the name of a member of
    the data: texts have their quotes escaped, and are followed by something else.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Look for these."""
        self._names = sorted(names)

    def find(
        self,
        columns: Mapping[str, pa.Array],
        data: pa.StructArray | None,
        text: bytes,
        lines: Lines,
        places: Places,
    ) -> dict[str, pa.BooleanArray]:
        """Per property that some line does not name: the lines that do not.

        Args:
            columns: The columns that some line names.
            data: The data of the lines, null where a line has none.
            text: The lines at `places`, one after the other.
            lines: The lines of the block.
            places: Which of them.
        """
        found: dict[str, pa.BooleanArray] = {}
        is_hiding = bool(self._names) and b"\\u00" in text and bool(_HIDING.search(text))
        for name in self._names:
            column = columns.get(name)
            if column is None:
                found[name] = pa.repeat(True, len(places))
            elif column.null_count:
                is_absent = column.is_null().to_numpy(zero_copy_only=False).copy()
                open_ = is_absent
                if data is not None and data.null_count:
                    open_ = is_absent & data.is_valid().to_numpy(zero_copy_only=False)
                rows = np.flatnonzero(open_)
                known = len(places) - column.null_count
                is_named = _are_named(name, text, known, len(rows), is_hiding)
                if is_named is None:
                    is_absent[rows] = ~_naming(name, lines, places[rows], is_hiding)
                elif is_named:
                    is_absent[rows] = False
                if is_absent.any():
                    found[name] = pa.array(is_absent)
        return found


def _are_named(name: str, text: bytes, known: int, nulls: int, is_hiding: bool) -> bool | None:
    """True if all of some lines, with null in a property, name it; False if none; None if some may.

    No line names it twice, and `known` lines give it a value. So it is enough to count, which is
    much faster than to look into each line.
    """
    if name in _AROUND:
        return None
    quoted = f'"{name}"'.encode()
    if not is_hiding and text.count(quoted) == known:
        return False
    return True if text.count(quoted + b":") == known + nulls else None


def _naming(name: str, lines: Lines, places: Places, is_hiding: bool) -> npt.NDArray[np.bool_]:
    """True for the lines that name a property, whose value is null in all of them."""
    texts = lines.texts(places)
    found = _matching(texts, f'"{name}"[ \\t\\r]*:[ \\t\\r]*null')
    if is_hiding:
        hiding = _matching(texts, _HIDING.pattern.decode())
        for row in np.flatnonzero(hiding & ~found).tolist():
            members = read_line(lines.line(int(places[row])))
            assert isinstance(members, dict)
            data = members.get(DATA)
            found[row] = isinstance(data, dict) and name in data
    return found


def _matching(texts: pa.LargeBinaryArray, pattern: str) -> npt.NDArray[np.bool_]:
    return np.array(pc.match_substring_regex(texts, pattern))
