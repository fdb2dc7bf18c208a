"""Tools for testing what is built on graphs: Hypothesis strategies and a naive model of queries."""
