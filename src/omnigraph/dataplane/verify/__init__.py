"""Verification of files and rows, by the tasks of a runner."""
