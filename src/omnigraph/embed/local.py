"""Vectors computed on this machine by a small model that a package brings with it.

The package is `wordllama` (an optional install): word vectors of 256 dimensions, averaged, with
weights and tokenizer in the wheel. It is never allowed to download anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from omnigraph.embed.provider import Purpose, Vector, checked
from omnigraph.errors import Code, InvalidInput

PACKAGE: Final = "wordllama"
MODEL: Final = "wordllama-l2-supercat-256"
DIM_MAX: Final = 256


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
