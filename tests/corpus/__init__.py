"""Example programs and what the compilers make of them."""
