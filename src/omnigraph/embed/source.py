"""Embeddings as queries and writes ask for them: found when needed, and by the right model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from omnigraph.embed.provider import Embedder, Purpose, Vector, checked
from omnigraph.errors import Code, InvalidInput, Unavailable

# Questions are asked again: their vectors are kept, so that a page of results costs one request.
_KEPT: Final = 256


class Embeddings:
    """The embeddings of a graph. A graph that never embeds never makes a provider. Thread-safe."""

    def __init__(self, make: Callable[[], Embedder]) -> None:
        """Ask the provider that `make` gives; it is made at the first text."""
        self._make = make
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._kept: OrderedDict[tuple[str, int], Vector] = OrderedDict()

    def embed_texts(self, texts: Sequence[str], dim: int, model: str | None) -> list[Vector]:
        """A vector for each text that is to be stored.

        Args:
            texts: The texts.
            dim: How many numbers a vector has.
            model: The model that the schema names, if it does.

        Raises:
            InvalidInput: The schema names another model than the provider has.
            Unavailable: The provider did not answer, or not usably.
        """
        return self._ask(texts, dim, model, Purpose.DOCUMENT)

    def embed_query(self, text: str, dim: int, model: str | None) -> Vector:
        """The vector of a text that is looked for; errors are those of `embed_texts`."""
        with self._lock:
            known = self._kept.get((text, dim))
            # The provider is the same for the life of this object, the wish may differ.
            if known is not None and self._embedder is not None:
                _agree(self._embedder, model)
                self._kept.move_to_end((text, dim))
                return known
        (found,) = self._ask([text], dim, model, Purpose.QUERY)
        with self._lock:
            self._kept[text, dim] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _ask(
        self, texts: Sequence[str], dim: int, model: str | None, purpose: Purpose
    ) -> list[Vector]:
        if not texts:
            return []
        embedder = self._provider()
        _agree(embedder, model)
        made = embedder.embed(texts, dim, purpose)
        if len(made) != len(texts):
            message = (
                f"the model {embedder.model!r} gave {len(made)} vectors for {len(texts)} texts"
            )
            raise Unavailable(Code.UNAVAILABLE, message, model=embedder.model)
        # Whoever wrote the provider: what is stored and compared is sound.
        return [checked(vector, dim, embedder.model) for vector in made]

    def _provider(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                self._embedder = self._make()
            return self._embedder


def _agree(embedder: Embedder, model: str | None) -> None:
    if model is not None and model != embedder.model:
        message = (
            f"the schema wants vectors of the model {model!r}, "
            f"the embedding provider has {embedder.model!r}"
        )
        raise InvalidInput(Code.INPUT_INVALID, message, wanted=model, configured=embedder.model)
