"""Reading a snapshot with uncommitted changes laid over it, for the queries of a transaction."""
