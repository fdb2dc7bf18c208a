"""Changes of tables: which entities differ between two versions, and in which properties."""
