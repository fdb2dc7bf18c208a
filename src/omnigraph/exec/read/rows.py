"""The result of a reading query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, overload

import pyarrow as pa

from omnigraph.exec.large_text import narrowed
from omnigraph.exec.read.columns import ColumnReader, ResultColumn, prepare
from omnigraph.exec.read.limits import Limits
from omnigraph.lang.values import ValueType
from omnigraph.runtime.cancellation import checked

_DEFAULT: Final = Limits()


class Rows(Sequence[dict[str, Any]]):
    """Rows in a total order; values are read when they are asked for.

    A row is a dictionary of plain Python values: dates and moments (in UTC) are those of
    `datetime`, lists and vectors are lists, a whole entity is a dictionary or None.

    Example:
        ```python
        rows = graph.query("query q() { match { $p: Person } return { $p.name } }")
        assert rows.columns == ("p.name",)
        assert rows[0] == {"p.name": "Ada"}
        ```

    Attributes:
        columns: The names of the columns.
    """

    __slots__ = ("_columns", "_count", "_limits", "_listed", "columns")

    def __init__(
        self,
        names: tuple[str, ...],
        columns: Sequence[ResultColumn],
        count: int,
        limits: Limits = _DEFAULT,
    ) -> None:
        """Hold these columns, which have `count` entries each."""
        self._limits = limits
        self.columns = names
        self._columns = columns
        self._count = count
        self._listed: list[dict[str, Any]] | None = None

    @property
    def types(self) -> tuple[ValueType, ...]:
        """The types of the columns."""
        return tuple([item.type for item in self._columns])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._all())

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._all()[place]

    def __repr__(self) -> str:
        return f"<{self._count} rows: {', '.join(self.columns)}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows):
            return self.columns == other.columns and self._all() == other._all()
        return self._all() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def settled(self) -> Rows:
        """The same rows, with nothing left to read."""
        prepare(self._columns)
        reader = ColumnReader(self._limits.bytes_max)
        found = [item.materialized(reader) for item in checked(self._columns)]
        return Rows(self.columns, found, self._count, self._limits)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries; the caller may change them."""
        return [dict(row) for row in self._all()]

    def tuples(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, in the order of the columns."""
        if not self._columns:
            return [()] * self._count
        self._limits.check_python(self._count, len(self._columns))
        prepare(self._columns)
        reader = ColumnReader(self._limits.bytes_max)
        return list(zip(*[item.python(reader) for item in self._columns], strict=True))

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table. A whole entity is a struct."""
        prepare(self._columns)
        reader = ColumnReader(self._limits.bytes_max)
        arrays = [narrowed(item.arrow(reader)) for item in self._columns]
        return pa.Table.from_arrays(arrays, names=list(self.columns))

    def to_pandas(self) -> Any:
        """All rows as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars data frame; polars must be installed."""
        return import_module("polars").from_arrow(self.to_arrow())

    def to_spark(self, spark: object = None) -> Any:
        """All rows as a Spark DataFrame.

        Args:
            spark: A Spark master or session; by default `OMNIGRAPH_SPARK_MASTER`, or this machine.
        """
        # Spark is imported only by those who use it.
        from omnigraph.dataplane.spark.config import configured  # noqa: PLC0415
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        table = self.to_arrow().combine_chunks()
        with acquire(configured(spark)) as held:
            # Without Spark, getting a session has said what to install.
            from omnigraph.dataplane.spark.columns import carried, carry  # noqa: PLC0415

            batches = [carry(batch) for batch in table.to_batches()]
            return held.session.createDataFrame(
                pa.Table.from_batches(batches, None if batches else carried(table.schema))
            )

    def _all(self) -> list[dict[str, Any]]:
        if self._listed is None:
            names = self.columns
            self._listed = [dict(zip(names, cells, strict=True)) for cells in self.tuples()]
        return self._listed
