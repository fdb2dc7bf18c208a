"""Choices that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")


class Dice:
    """Makes the same choices for the same seed."""

    def __init__(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)

    def is_so(self, chance: float) -> bool:
        return bool(self._dice.random() < chance)

    def below(self, end: int) -> int:
        return int(self._dice.integers(end))

    def one(self, items: Sequence[_T]) -> _T:
        return items[self.below(len(items))]

    def some(self, items: Sequence[_T], most: int = 3) -> list[_T]:
        """Up to so many of them, each once."""
        count = self.below(most + 1)
        return [items[place] for place in self._dice.permutation(len(items))[:count]]
