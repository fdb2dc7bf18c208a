"""Embeddings: vectors for texts, from a provider that the caller chooses."""
