"""Commits as values: rows of the manifest, the state that they make up, requests."""
