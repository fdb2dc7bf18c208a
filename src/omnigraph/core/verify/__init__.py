"""Verification: compares what a graph says about itself with what is stored."""
