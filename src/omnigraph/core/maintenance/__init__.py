"""Maintenance of an open repository: indexes, verification, copies, relocation."""
