"""Vectors computed in this process: by a small model that a package brings with it, or by none.

`LocalEmbedder` takes the package `wordllama` (an optional install): word vectors of 256 dimensions,
averaged, with weights and tokenizer in the wheel. It is never allowed to download anything.
`MockEmbedder` has no model: the same text always gives the same vector, which has no meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from omnigraph.embed.provider import Purpose, Vector, checked
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.values import to_f32

PACKAGE: Final = "wordllama"
MODEL: Final = "wordllama-l2-supercat-256"
DIM_MAX: Final = 256
_MASK: Final = 2**64 - 1
_FNV_START: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


class LocalEmbedder:
    """The model of the package. Vectors may be shorter than it makes them: they are cut."""

    model = MODEL

    def embed(self, texts: Sequence[str], dim: int, purpose: Purpose) -> list[Vector]:
        """A vector of length one for each text."""
        if dim > DIM_MAX:
            message = f"the model {MODEL!r} has {DIM_MAX} dimensions at most, not {dim}"
            raise InvalidInput(Code.INPUT_INVALID, message, model=MODEL, dim=dim)
        if not all(text.strip() for text in texts):
            message = f"the model {MODEL!r} has no vector for an empty text"
            raise InvalidInput(Code.INPUT_INVALID, message, model=MODEL)
        rows = _loaded().embed(list(texts), norm=False)[:, :dim].astype("float64")
        lengths = (rows * rows).sum(axis=1, keepdims=True) ** 0.5
        # A row of zeros stays one, and is refused as such.
        return [checked(row, dim, MODEL) for row in (rows / (lengths + (lengths == 0))).tolist()]


@lru_cache(maxsize=1)
def _loaded() -> Any:
    try:
        package = import_module(PACKAGE)
    except ImportError as problem:
        message = f"the local embedding provider needs the package {PACKAGE}"
        raise InvalidInput(
            Code.SETTINGS_INVALID, f"{message}: pip install {PACKAGE}", package=PACKAGE
        ) from problem
    # It looks for its own tokenizer in a cache folder; the one it needs lies beside its code.
    folder = Path(str(package.__file__)).parent
    return package.WordLlama.load(cache_dir=folder, disable_download=True)


class MockEmbedder:
    """For tests and trials. A text looked for and the same text stored get one vector."""

    def __init__(self, model: str = "mock") -> None:
        """Take the name that is noted as that of the model."""
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
