"""Vectors without a model: the same text always gives the same one, and means nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from omnigraph.embed.provider import Purpose, Vector
from omnigraph.lang.values import to_f32

_MASK: Final = 2**64 - 1
_FNV_START: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


class MockEmbedder:
    """For tests and trials. A text looked for and the same text stored get one vector."""

    def __init__(self, model: str = "mock") -> None:
        """Pretend to be a model."""
        self.model = model

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        """A vector of length one for each text."""
        return [_vector(text, dim) for text in texts]


def _vector(text: str, dim: int) -> Vector:
    state = _FNV_START
    for byte in text.encode("utf-8", "surrogatepass"):
        state = ((state ^ byte) * _FNV_PRIME) & _MASK
    state = state or 1  # the generator below never leaves zero
    numbers = []
    for _ in range(dim):
        state ^= (state << 13) & _MASK
        state ^= state >> 7
        state ^= (state << 17) & _MASK
        numbers.append(state / 2**63 - 1.0)
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return tuple(to_f32(number / length) for number in numbers)
