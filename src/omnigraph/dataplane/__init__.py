"""Bulk load and export: one pipeline, run in this process or on Spark."""
