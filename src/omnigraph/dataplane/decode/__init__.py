"""Decoders: bytes and foreign columns into rows as tables store them."""
