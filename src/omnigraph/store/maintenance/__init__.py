"""Keeping tables in order: compaction, indexes, and an inventory of files."""
