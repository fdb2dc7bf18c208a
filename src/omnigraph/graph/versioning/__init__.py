"""Branches, history, differences, merges and transactions, as the facade shows them."""
