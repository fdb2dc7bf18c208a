"""Graph algorithms in this process, on the adjacency that queries use, too."""
