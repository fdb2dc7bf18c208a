"""The calls that keep a graph in order, and their reports."""
