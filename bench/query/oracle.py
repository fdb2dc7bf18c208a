"""The right answers to the searches, by the plain formulas over all documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.query.generate import DIM, Floats, read

K1: Final = 1.2
B: Final = 0.75
RRF_K: Final = 60


class Oracle:
    """Scores of documents, best first."""

    def __init__(self, data: Path) -> None:
        docs = read(data, "Doc").combine_chunks()
        self._keys = np.array(docs["key"].to_pylist())
        self._topics = docs["topic"].combine_chunks()
        self._bodies = docs["body"].combine_chunks()
        flat = docs["embedding"].combine_chunks().flatten().to_numpy()
        self._vectors = flat.reshape(-1, DIM).astype(np.float64)
        self._vectors /= np.linalg.norm(self._vectors, axis=1, keepdims=True)
        lengths = pc.add(pc.count_substring(self._bodies, " "), 1).to_numpy()
        self._long = lengths / lengths.mean()

    def best(self, question: str, params: Mapping[str, Any]) -> list[tuple[str, float]]:
        """The documents of a search with their scores."""
        match question:
            case "Q9":
                return self._ranked(self._distances(params), ascending=True)
            case "Q10":
                return self._ranked(self._relevance(params), ascending=False)
            case _:
                return self._ranked(self._fused(params), ascending=False)

    def _distances(self, params: Mapping[str, Any]) -> Floats:
        """Cosine distances, NaN for documents of another topic."""
        vector = np.array(params["vector"])
        distances = 1 - self._vectors @ (vector / np.linalg.norm(vector))
        return np.where(self._of_topic(params), distances, np.nan)

    def _relevance(self, params: Mapping[str, Any]) -> Floats:
        """BM25, NaN for documents without a term. Words are of one length, so no part is one."""
        scores = np.zeros(len(self._keys))
        for word in dict.fromkeys(params["words"].split()):
            counts = pc.count_substring(self._bodies, word).to_numpy()
            found = np.count_nonzero(counts)
            idf = np.log(1 + (len(counts) - found + 0.5) / (found + 0.5))
            scores += idf * counts * (K1 + 1) / (counts + K1 * (1 - B + B * self._long))
        return np.where(scores > 0, scores, np.nan)

    def _fused(self, params: Mapping[str, Any]) -> Floats:
        near = self._distances(params)
        said = np.where(self._of_topic(params), self._relevance(params), np.nan)
        scores = np.zeros(len(self._keys))
        for values in (near, -said):
            order = np.lexsort((self._keys, values))[: np.count_nonzero(~np.isnan(values))]
            scores[order] += 1 / (RRF_K + np.arange(1, len(order) + 1))
        return np.where(scores > 0, scores, np.nan)

    def _of_topic(self, params: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        mask: npt.NDArray[np.bool_] = pc.equal(self._topics, pa.scalar(params["topic"])).to_numpy(
            zero_copy_only=False
        )
        return mask

    def _ranked(self, scores: Floats, *, ascending: bool) -> list[tuple[str, float]]:
        """The first few; the order of equal ones is by key."""
        order = np.lexsort((self._keys, scores if ascending else -scores))[:100]
        return [(str(self._keys[n]), float(scores[n])) for n in order if not np.isnan(scores[n])]
