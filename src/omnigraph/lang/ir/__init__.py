"""Compiled queries: frozen, typed, and complete without the catalog."""
