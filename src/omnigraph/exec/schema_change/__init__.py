"""Changing the schema of a stored graph."""
