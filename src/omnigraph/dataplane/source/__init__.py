"""Where the rows of a load come from, and how they are divided into splits."""
