"""Tools for testing graphs: models, strategies and conformance suites. Nothing imports it."""
