"""Permissions, which every call of a graph is checked for before it reads or writes."""
