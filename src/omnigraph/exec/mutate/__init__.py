"""Changing queries: statements to one commit."""
