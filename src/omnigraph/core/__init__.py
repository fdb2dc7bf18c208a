"""The commit core: manifest, branches, the one write path, recovery. Knows tables, not queries."""
