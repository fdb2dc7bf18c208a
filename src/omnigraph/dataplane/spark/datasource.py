"""The `omnigraph` format of Spark: reading and writing one type of a graph.

Options of both directions: `path` (where the graph lives), `type` (`Person`, or `node:Person`
where a node and an edge type share a name), `branch`, and `storage.<option>` for places that need
credentials. Reading also takes `commit` (or `at`), `tag`, `time` (the last commit at or before it),
`columns` (names between commas) and `where` (a condition on the columns in SQL, which the scan
applies), or, for what changed, `changesFrom` and `changesTo`; a stream takes `changes`. Writing
takes `merge` (with the mode append: update what exists), `actor`,
`idempotency_key`, `replace`, `cascade`, `violations_max` and `violations_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructField, StructType

from omnigraph.core.layout import table_key
from omnigraph.dataplane.spark.carried_errors import carried_errors
from omnigraph.dataplane.spark.changes import (
    ChangesReader,
    ChangesStreamReader,
    changes_schema,
    reads_changes,
)
from omnigraph.dataplane.spark.columns import spark_schema
from omnigraph.dataplane.spark.opened import Opened, options_of_table
from omnigraph.dataplane.spark.reading import TypeReader
from omnigraph.errors import Code, InvalidInput


class DefaultSource(DataSource):
    """One type of a graph as a table of Spark.

    Attributes:
        driver: The socket of the driver's process, and which of its sessions this is for. Without
            it, the variable `OMNIGRAPH_SPARK_DRIVER` names the socket, if anything does.
    """

    driver: ClassVar[tuple[str, str] | None] = None
    _pinned_options: Mapping[str, str] | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "omnigraph"

    def schema(self) -> StructType:
        """The columns of the type."""
        with carried_errors():
            table = options_of_table(self.options)
            opened = Opened(self.options if table is None else table)
            if table is None and reads_changes(self.options):
                return changes_schema(opened)
            found = spark_schema(opened.entity, opened.columns)
            if table is not None:
                return _remembering(found, table)
            self._pinned_options = _pinned(self.options, opened)
            return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that is pinned to one commit."""
        with carried_errors():
            chosen = self._pinned_options or self.options
            opened = Opened(chosen or _remembered(schema))
            if reads_changes(self.options):
                return ChangesReader(opened, schema.names, self.options)
            _check_declared(schema, spark_schema(opened.entity))
            key = table_key(opened.entity.kind, opened.entity.name)
            pin = opened.snapshot.pin(key).store_pin
            return TypeReader(opened.root, pin, schema.names, opened.where)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader that follows the commits of a branch."""
        with carried_errors():
            return ChangesStreamReader(self.options, schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer whose rows become one commit."""
        # Reading needs none of the loader.
        from omnigraph.dataplane.spark.writing import TypeWriter  # noqa: PLC0415

        with carried_errors():
            return TypeWriter.begin(
                self.options, tuple(schema.names), overwrite=overwrite, driver=self.driver
            )


def _pinned(options: Mapping[str, str], opened: Opened) -> Mapping[str, str]:
    """The options with the commit that they mean now: a frame is planned more than once."""
    pinned = CaseInsensitiveDict(options)
    for name in ("at", "tag", "time"):
        pinned.pop(name, None)
    pinned["branch"], pinned["commit"] = str(opened.snapshot.branch), str(opened.snapshot.head)
    return pinned


def _check_declared(wanted: StructType, known: StructType) -> None:
    """Refuse a schema of the caller (`spark.read.schema`) that has other columns than the type."""
    types = {field.name: field.dataType for field in known.fields}
    for field in wanted.fields:
        if types.get(field.name) != field.dataType:
            found = types.get(field.name)
            has = "no such column" if found is None else f"{field.name} {found.simpleString()}"
            text = (
                f"the schema asks for {field.name} {field.dataType.simpleString()}, "
                f"and the type has {has}; the columns are {known.simpleString()}"
            )
            raise InvalidInput(Code.INPUT_INVALID, text, column=field.name)


# Spark hands the options of a table of its catalog over when the table is made, and never again;
# but it keeps the schema that it is given then. Credentials do not belong there.
_METADATA: Final = "omnigraph"


def _remembering(schema: StructType, options: Mapping[str, str]) -> StructType:
    if any(name.lower().startswith("storage.") for name in options):
        text = (
            "a table of the catalog would show its storage options to every reader: let the "
            "environment name them (AWS_ACCESS_KEY_ID, …), or use spark.read"
        )
        raise InvalidInput(Code.INPUT_INVALID, text)
    if not schema.fields:
        return schema
    first, *others = schema.fields
    told = StructField(first.name, first.dataType, first.nullable, {_METADATA: dict(options)})
    return StructType([told, *others])


def _remembered(schema: StructType) -> dict[str, str]:
    found = schema.fields[0].metadata.get(_METADATA) if schema.fields else None
    return dict(found) if isinstance(found, Mapping) else {}
