"""The `omnigraph` format of Spark: reading and writing one type of a graph.

Options of both directions: `path` (where the graph lives), `type` (`Person`, or `node:Person`
where a node and an edge type share a name), `branch`, and `storage.<option>` for places that need
credentials. Reading also takes `commit`, `columns` (names between commas) and `where` (a condition
on the columns in SQL, which the scan applies); writing takes `merge` (with the mode append: update
what exists), `actor`, `idempotency_key`, `replace` and `cascade`.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from omnigraph.core.layout import table_key
from omnigraph.core.repository import store_pin
from omnigraph.dataplane.spark.columns import spark_schema
from omnigraph.dataplane.spark.opened import Opened
from omnigraph.dataplane.spark.reading import TypeReader


class DefaultSource(DataSource):
    """One type of a graph as a table of Spark."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "omnigraph"

    def schema(self) -> StructType:
        """The columns of the type."""
        opened = Opened(self.options)
        return spark_schema(opened.entity, opened.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that is pinned to one commit."""
        opened = Opened(self.options)
        key = table_key(opened.entity.kind, opened.entity.name)
        pin = store_pin(opened.snapshot.pin(key))
        return TypeReader(opened.root, pin, schema.names, opened.where)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer whose rows become one commit."""
        # Whoever reads needs none of the loader.
        from omnigraph.dataplane.spark.writing import TypeWriter  # noqa: PLC0415

        return TypeWriter.begin(self.options, tuple(schema.names), overwrite=overwrite)
