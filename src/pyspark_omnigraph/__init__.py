"""Registers the format `omnigraph` with Spark, which looks for modules of this name."""

from omnigraph.dataplane.spark.datasource import DefaultSource as DefaultSource

__all__ = ["DefaultSource"]
