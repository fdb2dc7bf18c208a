"""The HTTP formats of embedding servers: path, request and response of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from omnigraph.embed.provider import Purpose

_TASKS: Final = {Purpose.DOCUMENT: "RETRIEVAL_DOCUMENT", Purpose.QUERY: "RETRIEVAL_QUERY"}


class MalformedAnswer(ValueError):
    """Raised for an answer that does not say which vector belongs to which text."""


class WireFormat(Protocol):
    """One way to ask for vectors over HTTP. Holds no state."""

    batch_max: int  # texts in one request
    is_normalized: bool  # whether vectors have length one whatever their dimension

    def path(self, model: str) -> str:
        """The path after the address of the server."""
        ...

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key."""
        ...

    def body(self, model: str, texts: Sequence[str], dim: int, purpose: Purpose) -> dict[str, Any]:
        """The request, as JSON."""
        ...

    def vectors(self, answer: object, count: int) -> list[object]:
        """The vectors of an answer in the order of the texts, not checked yet.

        Raises:
            MalformedAnswer: There is no such order.
        """
        ...


class OpenAiFormat:
    """The format of OpenAI and of compatible servers."""

    batch_max = 2048
    is_normalized = True

    def path(self, model: str) -> str:
        """The path after the address of the server."""
        return "/embeddings"

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key."""
        return {"Authorization": f"Bearer {api_key}"}

    def body(self, model: str, texts: Sequence[str], dim: int, purpose: Purpose) -> dict[str, Any]:
        """The request, as JSON."""
        wanted = {"model": model, "input": list(texts), "dimensions": dim}
        return {**wanted, "encoding_format": "float"}

    def vectors(self, answer: object, count: int) -> list[object]:
        """The vectors of an answer in the order of the texts, not checked yet."""
        items = _listed(answer, "data", count)
        placed: dict[int, object] = {}
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                raise MalformedAnswer("something that is no vector")
            index = item.get("index", place)
            if not isinstance(index, int):
                raise MalformedAnswer("a vector that belongs to no text")
            placed[index] = item.get("embedding")
        if set(placed) != set(range(count)):
            raise MalformedAnswer("vectors that belong to no text")
        return [placed[place] for place in range(count)]


class GeminiFormat:
    """The format of Google's Gemini."""

    batch_max = 100
    is_normalized = False  # the length of shortened vectors is not promised

    def path(self, model: str) -> str:
        """The path after the address of the server."""
        return f"/{_gemini_name(model)}:batchEmbedContents"

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key."""
        return {"x-goog-api-key": api_key}

    def body(self, model: str, texts: Sequence[str], dim: int, purpose: Purpose) -> dict[str, Any]:
        """The request, as JSON."""
        common = {
            "model": _gemini_name(model),
            "taskType": _TASKS[purpose],
            "outputDimensionality": dim,
        }
        return {"requests": [{**common, "content": {"parts": [{"text": text}]}} for text in texts]}

    def vectors(self, answer: object, count: int) -> list[object]:
        """The vectors of an answer in the order of the texts, not checked yet."""
        items = _listed(answer, "embeddings", count)
        return [item.get("values") if isinstance(item, dict) else None for item in items]


class OllamaFormat:
    """The format of Ollama."""

    batch_max = 512
    is_normalized = True

    def path(self, model: str) -> str:
        """The path after the address of the server."""
        return "/api/embed"

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key: a proxy in front of it may demand one."""
        return {"Authorization": f"Bearer {api_key}"}

    def body(self, model: str, texts: Sequence[str], dim: int, purpose: Purpose) -> dict[str, Any]:
        """The request, as JSON."""
        return {"model": model, "input": list(texts), "dimensions": dim}

    def vectors(self, answer: object, count: int) -> list[object]:
        """The vectors of an answer in the order of the texts, not checked yet."""
        return _listed(answer, "embeddings", count)


def _gemini_name(model: str) -> str:
    return model if model.startswith("models/") else f"models/{model}"


def _listed(answer: object, name: str, count: int) -> list[object]:
    items = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != count:
        raise MalformedAnswer("another number of vectors than of texts")
    return items
