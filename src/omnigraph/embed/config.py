"""Which provider of embeddings is used: what the caller says, else what the environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from omnigraph.embed.http import HttpEmbedder, Patience
from omnigraph.embed.local import LocalEmbedder
from omnigraph.embed.mock import MockEmbedder
from omnigraph.embed.provider import Embedder
from omnigraph.errors import Code, InvalidInput

_OPENAI: Final = "https://api.openai.com/v1"
_BOUNDS: Final = {
    "timeout_ms": ("OMNIGRAPH_EMBED_TIMEOUT_MS", 3_600_000),
    "deadline_ms": ("OMNIGRAPH_EMBED_DEADLINE_MS", 3_600_000),
    "attempts": ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", 100),
    "backoff_ms": ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", 3_600_000),
}


class ProviderKind(StrEnum):
    """The providers."""

    MOCK = "mock"
    LOCAL = "local"
    OPENAI = "openai"
    COMPATIBLE = "openai-compatible"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedConfig:
    """How embeddings are computed. What is None here, the environment may say."""

    provider: str | None = None
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    patience: Patience | None = None

    def over(self, environment: Mapping[str, str]) -> EmbedConfig:
        """This, with the environment in the places that are still open."""

        def named(name: str) -> str | None:
            return environment.get(name, "").strip() or None

        return EmbedConfig(
            provider=self.provider or named("OMNIGRAPH_EMBED_PROVIDER"),
            base_url=self.base_url or named("OMNIGRAPH_EMBED_BASE_URL"),
            model=self.model or named("OMNIGRAPH_EMBED_MODEL"),
            api_key=self.api_key or named("OPENAI_API_KEY"),
            patience=self.patience or _patience(environment),
        )


def make_embedder(config: EmbedConfig) -> Embedder:
    """The provider that a complete configuration describes.

    Raises:
        InvalidInput: It describes none, or leaves something out.
    """
    kind = _kind(config)
    if kind is ProviderKind.MOCK:
        return MockEmbedder(config.model or "mock")
    if kind is ProviderKind.LOCAL:
        return _local(config)
    if config.model is None:
        raise _incomplete("the model", "OMNIGRAPH_EMBED_MODEL")
    base_url = config.base_url or (_OPENAI if kind is ProviderKind.OPENAI else None)
    if base_url is None:
        raise _incomplete("the address", "OMNIGRAPH_EMBED_BASE_URL")
    if kind is ProviderKind.OPENAI and config.api_key is None:
        raise _incomplete("the key", "OPENAI_API_KEY")
    return HttpEmbedder(
        base_url=base_url, model=config.model, api_key=config.api_key, patience=config.patience
    )


def _local(config: EmbedConfig) -> Embedder:
    provider = LocalEmbedder()
    if config.model not in (None, provider.model):
        message = f"the local provider has the model {provider.model!r}, not {config.model!r}"
        raise InvalidInput(Code.SETTINGS_INVALID, message)
    return provider


def _kind(config: EmbedConfig) -> ProviderKind:
    if config.provider is None:
        if config.base_url is not None:
            return ProviderKind.COMPATIBLE
        message = "no embedding provider is configured: give one, or set OMNIGRAPH_EMBED_PROVIDER"
        known: list[str] = [each.value for each in ProviderKind]
        raise InvalidInput(Code.SETTINGS_INVALID, f"{message} ({', '.join(known)})", known=known)
    try:
        return ProviderKind(config.provider)
    except ValueError:
        known = [each.value for each in ProviderKind]
        message = f"there is no embedding provider {config.provider!r}; known: {', '.join(known)}"
        raise InvalidInput(Code.SETTINGS_INVALID, message, known=known) from None


def _incomplete(what: str, variable: str) -> InvalidInput:
    message = f"{what} of the embedding provider is missing: give it, or set {variable}"
    return InvalidInput(Code.SETTINGS_INVALID, message, variable=variable)


def _patience(environment: Mapping[str, str]) -> Patience:
    chosen: dict[str, int] = {}
    for name, (variable, most) in _BOUNDS.items():
        raw = environment.get(variable, "").strip()
        if not raw:
            continue
        if not (raw.isascii() and raw.isdigit() and 1 <= int(raw) <= most):
            message = f"{variable} must be a whole number from 1 to {most}, not {raw!r}"
            raise InvalidInput(Code.SETTINGS_INVALID, message, variable=variable)
        chosen[name] = int(raw)
    return Patience(**chosen)
