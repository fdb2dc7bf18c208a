"""The catalog: the meaning of a schema, its identity over time, and how it may change."""
