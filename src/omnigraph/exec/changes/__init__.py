"""Changes of entities between two states of a graph."""
