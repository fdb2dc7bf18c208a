"""The door through which Spark finds the `omnigraph` format; it looks for modules of this name."""

from omnigraph.dataplane.spark.datasource import DefaultSource as DefaultSource

__all__ = ["DefaultSource"]
