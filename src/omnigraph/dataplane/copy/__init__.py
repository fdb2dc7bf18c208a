"""Copies of whole graphs, made by tasks."""
