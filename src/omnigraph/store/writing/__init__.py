"""Changes of tables: created, staged, landed."""
