"""Values that stored rows get when the schema changes."""
