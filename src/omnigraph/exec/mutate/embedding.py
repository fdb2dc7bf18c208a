"""Vectors that are computed from texts while a query writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from omnigraph.exec.mutate.given import Stored
from omnigraph.lang.ir.ops import EmbedSpec


class EmbedderSource(Protocol):
    """Where the vectors of texts come from. Asked only by queries that need them."""

    def embed_texts(
        self, texts: Sequence[str], dim: int, model: str | None
    ) -> Sequence[tuple[float, ...]]:
        """A vector per text, by the given model, or by the configured one."""
        ...


class Embeddings:
    """The embeddings of one query. A text is sent once, however often the query starts over."""

    def __init__(self, source: EmbedderSource) -> None:
        """Ask this source."""
        self._source = source
        self._known: dict[tuple[str | None, int, str], tuple[float, ...]] = {}

    def vectors(self, spec: EmbedSpec, texts: Sequence[Stored]) -> list[tuple[float, ...] | None]:
        """A vector for each text, null for null."""
        model, dim = spec.model, spec.target.type.dim
        wanted = [text for text in texts if isinstance(text, str)]
        unknown = [t for t in dict.fromkeys(wanted) if (model, dim, t) not in self._known]
        if unknown:
            made = self._source.embed_texts(unknown, dim, model)
            for text, vector in zip(unknown, made, strict=True):
                self._known[model, dim, text] = tuple(vector)
        return [self._known[model, dim, t] if isinstance(t, str) else None for t in texts]
