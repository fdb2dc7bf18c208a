"""Running compiled queries: reading, searching and changing a graph."""
