"""Settling writes that stopped half-way."""
