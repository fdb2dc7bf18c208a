"""Group `algorithms`: graph algorithms, against networkx and igraph, and on Spark GraphFrames."""
