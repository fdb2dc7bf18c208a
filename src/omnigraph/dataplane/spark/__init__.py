"""Spark: finding it, starting it, running tasks on it. Imported only when Spark is wanted."""
