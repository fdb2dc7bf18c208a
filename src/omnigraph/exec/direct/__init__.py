"""Reading a few entities straight from the store, without loading whole types."""
