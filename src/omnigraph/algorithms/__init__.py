"""Graph algorithms as functions on arrays: vertices are numbers from 0 upwards."""
