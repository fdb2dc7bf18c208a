"""The accepted schema of a graph, its Arrow form, and rows across its changes."""
