"""What a provider of embeddings is, and what its answers must be like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

from omnigraph.errors import Code, Unavailable
from omnigraph.lang.values import F32_MAX, to_f32

Vector: TypeAlias = tuple[float, ...]


class Purpose(StrEnum):
    """What a text is: something stored, or something looked for. Some models tell them apart."""

    DOCUMENT = "document"
    QUERY = "query"


class Embedder(Protocol):
    """Turns texts into vectors. Safe to share between threads."""

    @property
    def model(self) -> str:
        """The name of the model; vectors of different models cannot be compared."""
        ...

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        """A vector of `dim` numbers for each text."""
        ...


def checked(answer: object, dim: int, model: str) -> Vector:
    """One vector as it can be stored: all of its numbers, finite, and not all zero.

    Raises:
        Unavailable: The provider answered something else.
    """
    if not isinstance(answer, list | tuple):
        raise _unusable(model, "an answer that is no vector")
    if len(answer) != dim:
        raise _unusable(model, f"a vector of {len(answer)} numbers instead of {dim}")
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in answer):
        raise _unusable(model, "a vector with something that is no number")
    # Python's own conversion would fail on an integer beyond all floats.
    if not all(-F32_MAX <= item <= F32_MAX and math.isfinite(item) for item in answer):
        raise _unusable(model, "a vector with a number that cannot be stored")
    vector = tuple(to_f32(float(item)) for item in answer)
    if not any(vector):
        raise _unusable(model, "a vector of zeros")
    return vector


def _unusable(model: str, what: str) -> Unavailable:
    return Unavailable(Code.UNAVAILABLE, f"the model {model!r} gave {what}", model=model)
