"""Optimizing: the same graph in fewer pieces, with its indexes up to date."""
