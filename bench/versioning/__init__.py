"""Group `versioning`: merges, fast-forwards, diffs, the change feed and branches."""
