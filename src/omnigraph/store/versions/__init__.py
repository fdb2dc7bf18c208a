"""Versions of tables, the way Lance keeps them: opened, found, committed strictly."""
