"""Forks of tables: made, found, dropped, and brought along when a graph is moved."""
