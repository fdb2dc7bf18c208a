"""`graph.algorithms`: the calls, and their results."""
