"""The result of an algorithm: read as a table, or written back as a property."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.algorithms.model import Selection, Task
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import FLOATS, INTEGERS, Base
from omnigraph.results.writes import LoadResult

TYPE = "type"
ID = "id"


class Answer(Protocol):
    """The values of all vertices, wherever they are."""

    def table(self) -> pa.Table:
        """Rows of type, id and value in memory."""
        ...

    def frame(self, spark: object) -> Any:
        """The same as a Spark DataFrame."""
        ...

    def loadable(self, property_name: str, narrow: bool) -> Mapping[str, Any]:
        """Per node type, what a load reads: ids, and values under the name of the property.

        Args:
            property_name: The property.
            narrow: True if its values are floats of 32 bits.
        """
        ...


Write = Callable[[Mapping[str, Any], str | None, str | None], LoadResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmResult:
    """The values that an algorithm computed, one for each node.

    A table with the columns `id` and the one that `column` names; before them `type` when nodes of
    several types took part. Rows are ordered by type and id.

    Attributes:
        algorithm: The name of the algorithm.
        column: The name of the values: `rank`, `component`, `label`, `distance` or `triangles`.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        iterations: How many iterations it took; None where it does not iterate.
        converged: It ended because nothing changed any more, not because of the most iterations.
        commit: The id of the commit whose state it is about.
        seconds: How long it took.
        written: What writing the values back did, if `write_to` asked for it.
    """

    algorithm: str
    column: str
    engine: str
    reason: str
    iterations: int | None
    converged: bool
    commit: str
    seconds: float
    written: LoadResult | None = None
    _answer: Answer
    _selection: Selection
    _check: Callable[[str, str | None], bool]
    _write: Write

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        table = self._answer.table()
        return table if len(self._selection.nodes) > 1 else table.drop_columns([TYPE])

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars data frame; polars must be installed."""
        return import_module("polars").from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_spark(self, spark: object = None) -> Any:
        """The rows as a Spark DataFrame; what Spark computed stays there.

        Args:
            spark: A Spark master or session, for what was computed in this process.
        """
        frame = self._answer.frame(spark)
        return frame if len(self._selection.nodes) > 1 else frame.drop(TYPE)

    def write(
        self, property_name: str, *, branch: str | None = None, actor: str | None = None
    ) -> LoadResult:
        """Write the values back as a property of the nodes, in one commit.

        Nothing else of the nodes changes. Nodes that are gone by now stay gone.

        Args:
            property_name: A property that all node types have, of a type that the values fit.
            branch: Which branch to change; by default the one that was read.
            actor: Who does it; the actor of the handle if not given.

        Raises:
            InvalidInput: There is no such property, or it cannot hold the values.
        """
        narrow = self._check(property_name, branch)
        return self._write(self._answer.loadable(property_name, narrow), branch, actor)


def check_writable(catalog: Catalog, selection: Selection, task: Task, name: str) -> bool:
    """Refuse a property that cannot hold the values; return whether its floats have 32 bits.

    Raises:
        InvalidInput: It says which type and why.
    """
    narrow = False
    for type_name in selection.nodes:
        entity = catalog.node_by_name[type_name]
        found = entity.property_by_name.get(name)
        place = f"{type_name}.{name}"
        if found is None:
            near = did_you_mean(name, list(entity.property_by_name))
            wanted = "I64" if task.is_whole else "F64"
            optional = "?" if task.is_partial else ""
            text = f"{type_name} has no property '{name}' to write to" + (
                f"; {near}" if near else f"; its schema would say `{name}: {wanted}{optional}`"
            )
            raise InvalidInput(Code.INPUT_INVALID, text, type=type_name, property=name)
        kind = found.type
        if name in entity.key:
            raise InvalidInput(Code.INPUT_INVALID, f"{place} is a key; it is never written to")
        if kind.is_list or kind.base not in (INTEGERS if task.is_whole else FLOATS):
            numbers = "whole numbers" if task.is_whole else "floats"
            text = f"{place} is {kind}; {task.name} writes {numbers}"
            raise InvalidInput(Code.INPUT_INVALID, text, type=type_name, property=name)
        if task.is_partial and not kind.nullable:
            text = f"{place} is {kind}; it must be {kind}?, since not every node has a distance"
            raise InvalidInput(Code.INPUT_INVALID, text, type=type_name, property=name)
        narrow = narrow or kind.base is Base.F32
    return narrow


class TableAnswer:
    """Values that were computed in this process."""

    def __init__(
        self,
        names: tuple[str, ...],
        ids: tuple[pa.Array, ...],
        column: str,
        values: pa.Array,
        open_session: Callable[[object], Any],
    ) -> None:
        """Hold values of vertices; `ids` are those of each type, one type after the other."""
        self._names = names
        self._ids = ids
        self._column = column
        self._values = values
        self._open_session = open_session

    def table(self) -> pa.Table:
        """Rows of type, id and value in memory."""
        parts = [
            pa.table({TYPE: pa.repeat(pa.scalar(name), len(ids)), ID: ids, self._column: values})
            for name, ids, values in self._parts()
        ]
        schema = pa.schema(
            [(TYPE, pa.string()), (ID, pa.string()), (self._column, self._values.type)]
        )
        return pa.concat_tables([part.cast(schema) for part in parts] or [schema.empty_table()])

    def frame(self, spark: object) -> Any:
        """The same as a Spark DataFrame."""
        return self._open_session(spark).createDataFrame(self.table())

    def loadable(self, property_name: str, narrow: bool) -> Mapping[str, Any]:
        """Per node type, what a load reads."""
        return {
            f"node:{name}": pa.table(
                {ID: ids, property_name: values.cast(pa.float32()) if narrow else values}
            )
            for name, ids, values in self._parts()
        }

    def _parts(self) -> Iterator[tuple[str, pa.Array, pa.Array]]:
        start = 0
        for name, ids in zip(self._names, self._ids, strict=True):
            yield name, ids, self._values.slice(start, len(ids))
            start += len(ids)
