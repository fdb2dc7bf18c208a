"""The dense view: whole columns and adjacency of pinned types, in memory and bounded."""
