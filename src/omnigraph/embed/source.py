"""Embeddings as queries and writes ask for them: found when needed, and by the right model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from omnigraph.embed.cache import Rows, VectorCache
from omnigraph.embed.provider import (
    PROVIDER_VARIABLE,
    Embedder,
    Purpose,
    Vector,
    checked,
    checked_row,
    no_provider,
)
from omnigraph.embed.refused import moved, position_of
from omnigraph.errors import Code, GraphError, InvalidInput, Unavailable
from omnigraph.runtime import cancellation

# Questions are asked again: their vectors are kept, so that a page of results costs one request.
_VECTORS_KEPT_MAX: Final = 256
# Vectors of a provider are lists of Python numbers, which take eight times what is stored of them.
_TEXTS_AT_ONCE: Final = 1024


class Embeddings:
    """The embeddings of a graph. A graph that never embeds never makes a provider. Thread-safe.

    What is pickled is the provider: elsewhere, the environment may say something else.
    """

    def __init__(self, make: Callable[[], Embedder | None]) -> None:
        """Ask the provider that `make` gives; it is made at the first text."""
        self._make: Callable[[], Embedder | None] = make
        self._begin(None)

    def _begin(self, embedder: Embedder | None) -> None:
        self._lock = threading.Lock()
        self._embedder = embedder
        self._kept: OrderedDict[tuple[str, int], Vector] = OrderedDict()
        self._cache = VectorCache()

    def __getstate__(self) -> tuple[Embedder | None, GraphError | None]:
        try:
            return self._provider(), None
        except GraphError as problem:
            # It matters only if a vector is needed there.
            return None, problem

    def __setstate__(self, state: tuple[Embedder | None, GraphError | None]) -> None:
        embedder, problem = state

        def make() -> Embedder | None:
            if problem is not None:
                raise problem
            return embedder

        self._make = make
        self._begin(None)

    @property
    def has_provider(self) -> bool:
        """True if a provider is configured.

        Raises:
            InvalidInput: One is, but not completely.
        """
        return self._provider() is not None

    def embed_texts(self, texts: Sequence[str], dim: int, model: str | None) -> list[Vector]:
        """A vector for each text that is to be stored.

        Args:
            texts: The texts.
            dim: How many numbers a vector has.
            model: The model that the schema names, if it does.

        Raises:
            InvalidInput: There is no provider, or the schema names another model than it has.
            Unavailable: The provider did not answer, or not usably.
        """
        return [tuple(row.tolist()) for row in self.embed_rows(texts, dim, model)]

    def embed_rows(self, texts: Sequence[str], dim: int, model: str | None) -> Rows:
        """The same as an array, a row for each text. Equal texts are asked for once."""
        rows = np.empty((len(texts), dim), np.float32)
        if not len(texts):
            return rows
        embedder = self._required()
        _agree(embedder, model)
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            known = None if text in places else self._cache.get(embedder.model, dim, text)
            if known is None:
                places.setdefault(text, []).append(place)
            else:
                rows[place] = known
        unknown = list(places)
        for start in range(0, len(unknown), _TEXTS_AT_ONCE):
            cancellation.check()
            asked = unknown[start : start + _TEXTS_AT_ONCE]
            try:
                made = _ask(embedder, asked, dim, Purpose.DOCUMENT)
            except InvalidInput as problem:
                position = position_of(problem)
                if position is None:
                    raise
                raise moved(problem, places[asked[position]][0]) from None
            for text, vector in zip(asked, made, strict=True):
                row = checked_row(vector, dim, embedder.model)
                rows[places[text]] = row
                self._cache.put(embedder.model, dim, text, row)
        return rows

    def embed_query(self, text: str, dim: int, model: str | None) -> Vector:
        """The vector of a text that is looked for; errors are those of `embed_texts`."""
        with self._lock:
            known = self._kept.get((text, dim))
            # The provider is the same for the life of this object, the wish may differ.
            if known is not None and self._embedder is not None:
                _agree(self._embedder, model)
                self._kept.move_to_end((text, dim))
                return known
        embedder = self._required()
        _agree(embedder, model)
        (made,) = _ask(embedder, [text], dim, Purpose.QUERY)
        # Whatever the provider returns: what is stored and compared is sound.
        found = checked(made, dim, embedder.model)
        with self._lock:
            self._kept[text, dim] = found
            if len(self._kept) > _VECTORS_KEPT_MAX:
                self._kept.popitem(last=False)
        return found

    def _required(self) -> Embedder:
        embedder = self._provider()
        if embedder is None:
            raise no_provider(f"set {PROVIDER_VARIABLE}, or give a vector instead of the text")
        return embedder

    def _provider(self) -> Embedder | None:
        with self._lock:
            if self._embedder is None:
                # None is not kept: the environment may name one later.
                self._embedder = self._make()
            return self._embedder


def _ask(embedder: Embedder, texts: Sequence[str], dim: int, purpose: Purpose) -> Sequence[Vector]:
    """The answer of a provider; only the number of vectors is checked."""
    made = embedder.embed(texts, dim, purpose)
    if len(made) != len(texts):
        message = f"the model {embedder.model!r} gave {len(made)} vectors for {len(texts)} texts"
        raise Unavailable(Code.UNAVAILABLE, message, model=embedder.model)
    return made


def _agree(embedder: Embedder, model: str | None) -> None:
    if model is not None and model != embedder.model:
        message = (
            f"the schema wants vectors of the model {model!r}, "
            f"the embedding provider has {embedder.model!r}"
        )
        raise InvalidInput(Code.INPUT_INVALID, message, wanted=model, configured=embedder.model)
