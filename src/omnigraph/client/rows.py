"""The rows of a query that a server has answered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from importlib import import_module
from typing import Any, overload


class RemoteRows(Sequence[dict[str, Any]]):
    """Rows in a total order, with the interface of `Rows`; values are plain Python.

    Attributes:
        columns: The names of the columns.
    """

    __slots__ = ("_arrow", "_rows", "columns", "types")

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
        arrow: Callable[[], Any],
    ) -> None:
        """Hold rows as they came, with the types of their columns as a schema writes them.

        Args:
            columns: The names of the columns.
            types: Their types.
            rows: The rows, as JSON has them.
            arrow: Requests the same rows from the server as an Arrow table.
        """
        self._arrow = arrow
        self.columns = tuple(columns)
        self.types = tuple(types)
        readers = {
            name: reader
            for name, kind in zip(columns, types, strict=True)
            if (reader := _reader(kind)) is not None
        }
        self._rows = [dict(row) for row in rows]
        for row in self._rows:
            for name, reader in readers.items():
                row[name] = reader(row[name])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._rows[place]

    def __repr__(self) -> str:
        return f"<{len(self)} rows: {', '.join(self.columns)}>"

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries; the caller may change them."""
        return [dict(row) for row in self._rows]

    def tuples(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, in the order of the columns."""
        return [tuple(row[name] for name in self.columns) for row in self._rows]

    def to_arrow(self) -> Any:
        """All rows as an Arrow table; the server runs the query again on the same state."""
        return self._arrow()

    def to_pandas(self) -> Any:
        """All rows as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars data frame; polars must be installed."""
        return import_module("polars").from_arrow(self.to_arrow())


def _reader(kind: str) -> Callable[[Any], Any] | None:
    """A function from JSON to the value of a type; None where they are the same."""
    plain = kind.removesuffix("?")
    if plain.startswith("["):
        inner = _reader(plain[1:-1])
        return None if inner is None else lambda found: found and [inner(each) for each in found]
    made = _READERS.get(plain)
    return None if made is None else lambda found: None if found is None else made(found)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.removeprefix("base64:"))


_READERS: dict[str, Callable[[Any], Any]] = {
    "Date": date.fromisoformat,
    "DateTime": _moment,
    "Blob": _bytes,
}
