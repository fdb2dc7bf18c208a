"""The protocol of embedding providers, and the check of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.errors import Code, InvalidInput, Unavailable
from omnigraph.lang.values import F32_MAX

Vector: TypeAlias = tuple[float, ...]

PROVIDER_VARIABLE: Final = "OMNIGRAPH_EMBED_PROVIDER"
_NUMBERS: Final = frozenset({int, float})


class Purpose(StrEnum):
    """The purpose of a text: stored or searched for. Some models treat them differently."""

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
    """One vector as it can be stored; errors are those of `checked_row`."""
    return tuple(checked_row(answer, dim, model).tolist())


def checked_row(answer: object, dim: int, model: str) -> npt.NDArray[np.float32]:
    """One vector as it can be stored: all of its numbers, finite, and not all zero.

    Raises:
        Unavailable: The provider answered something else.
    """
    if not isinstance(answer, list | tuple):
        raise _unusable(model, "an answer that is no vector")
    if len(answer) != dim:
        raise _unusable(model, f"a vector of {len(answer)} numbers instead of {dim}")
    if not (set(map(type, answer)) <= _NUMBERS or all(map(_is_number, answer))):
        raise _unusable(model, "a vector with something that is no number")
    try:
        wide = np.array(answer, np.float64)
    except OverflowError:  # an integer beyond all floats
        raise _unusable(model, "a vector with a number that cannot be stored") from None
    if not (np.abs(wide) <= F32_MAX).all():
        raise _unusable(model, "a vector with a number that cannot be stored")
    stored = wide.astype(np.float32)
    if not stored.any():
        raise _unusable(model, "a vector of zeros")
    return stored


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def normalized(vector: Vector) -> Vector:
    """The same direction, of length one."""
    wide = np.array(vector, np.float64)
    return tuple((wide / np.linalg.norm(wide)).astype(np.float32).tolist())


def no_provider(need: str) -> InvalidInput:
    """The error when vectors are needed and no provider is configured."""
    return InvalidInput(
        Code.SETTINGS_INVALID,
        f"no embedding provider is configured: {need}",
        variable=PROVIDER_VARIABLE,
    )


def _unusable(model: str, what: str) -> Unavailable:
    return Unavailable(Code.UNAVAILABLE, f"the model {model!r} gave {what}", model=model)
