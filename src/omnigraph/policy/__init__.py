"""Permissions: the one door that every call of a graph passes before it reads or writes."""
