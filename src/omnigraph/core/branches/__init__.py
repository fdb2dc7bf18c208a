"""Branches: created, listed, renamed and deleted."""
