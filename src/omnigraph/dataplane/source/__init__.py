"""The sources of a load, and their division into splits."""
