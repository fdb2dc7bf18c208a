"""Exporting a snapshot: NDJSON, Arrow IPC, Parquet."""
