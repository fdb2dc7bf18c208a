"""The choice of an embedding provider: from the caller, else from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from omnigraph.embed.http import HttpEmbedder, RequestPolicy
from omnigraph.embed.local import LocalEmbedder, MockEmbedder
from omnigraph.embed.provider import PROVIDER_VARIABLE, Embedder, no_provider
from omnigraph.embed.wire import GeminiFormat, OllamaFormat, OpenAiFormat, WireFormat
from omnigraph.errors import Code, InvalidInput

_MODEL: Final = "OMNIGRAPH_EMBED_MODEL"
_BASE_URL: Final = "OMNIGRAPH_EMBED_BASE_URL"
_MOCK: Final = "OMNIGRAPH_EMBEDDINGS_MOCK"
_ON: Final = frozenset({"1", "true", "yes", "on"})
_OPENROUTER: Final = "https://openrouter.ai/api/v1"
_BOUNDS: Final = {
    "timeout_ms": ("OMNIGRAPH_EMBED_TIMEOUT_MS", 3_600_000),
    "deadline_ms": ("OMNIGRAPH_EMBED_DEADLINE_MS", 3_600_000),
    "attempts": ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", 100),
    "backoff_ms": ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", 3_600_000),
    "batch": ("OMNIGRAPH_EMBED_BATCH", 2048),
    "concurrency": ("OMNIGRAPH_EMBED_CONCURRENCY", 64),
}


class ProviderKind(StrEnum):
    """The providers."""

    MOCK = "mock"
    LOCAL = "local"
    OPENAI = "openai"
    COMPATIBLE = "openai-compatible"
    GEMINI = "gemini"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class _HttpService:
    """A provider over HTTP.

    Attributes:
        wire: The form of its requests and answers.
        base_url: Its default address.
        model: The default model.
        key: The variable that has its key, if it has one.
        needs_key: Whether it needs a key.
    """

    wire: Callable[[], WireFormat]
    base_url: str | None = None
    model: str | None = None
    key: str | None = None
    needs_key: bool = False


_SERVICES: Final = {
    ProviderKind.OPENAI: _HttpService(
        OpenAiFormat,
        "https://api.openai.com/v1",
        "text-embedding-3-large",
        "OPENAI_API_KEY",
        needs_key=True,
    ),
    ProviderKind.COMPATIBLE: _HttpService(OpenAiFormat, key="OPENAI_API_KEY"),
    ProviderKind.GEMINI: _HttpService(
        GeminiFormat,
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-2",
        "GEMINI_API_KEY",
        needs_key=True,
    ),
    ProviderKind.OLLAMA: _HttpService(OllamaFormat, "http://localhost:11434"),
}
_ROUTED: Final = _HttpService(
    OpenAiFormat,
    _OPENROUTER,
    "openai/text-embedding-3-large",
    "OPENROUTER_API_KEY",
    needs_key=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedConfig:
    """The configuration of embeddings. The environment may give what is None here."""

    provider: str | None = None
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    patience: RequestPolicy | None = None

    @property
    def is_named(self) -> bool:
        """True if a provider is chosen. A key is no choice: other programs use it, too."""
        return self.provider is not None or self.base_url is not None

    def over(self, environment: Mapping[str, str]) -> EmbedConfig:
        """This, with the environment in the places that are still open."""

        def named(name: str | None) -> str | None:
            return None if name is None else environment.get(name, "").strip() or None

        provider = self.provider
        if provider is None and environment.get(_MOCK, "").strip().lower() in _ON:
            provider = ProviderKind.MOCK.value
        provider = provider or named(PROVIDER_VARIABLE)
        base_url = self.base_url or named(_BASE_URL)
        if provider == ProviderKind.GEMINI:
            base_url = base_url or named("OMNIGRAPH_GEMINI_BASE_URL")
        service = _service(provider, base_url, named(_ROUTED.key) is not None)
        return EmbedConfig(
            provider=provider,
            base_url=base_url or (service.base_url if provider is not None else None),
            model=self.model or named(_MODEL),
            api_key=self.api_key or named(service.key),
            patience=self.patience or _patience(environment),
        )


def configured_embedder(environment: Mapping[str, str]) -> Embedder | None:
    """The provider that the environment names; None if it names none.

    Raises:
        InvalidInput: It names one, and leaves something out.
    """
    config = EmbedConfig().over(environment)
    return make_embedder(config) if config.is_named else None


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
    service = _service(kind.value, config.base_url, is_routed=False)
    base_url = config.base_url or service.base_url
    if base_url is None:
        raise _incomplete("the address", _BASE_URL)
    model = config.model or service.model
    if model is None:
        raise _incomplete("the model", _MODEL)
    if service.needs_key and config.api_key is None:
        raise _incomplete("the key", str(service.key))
    return HttpEmbedder(
        base_url=base_url,
        model=model,
        api_key=config.api_key,
        wire=service.wire(),
        patience=config.patience,
    )


def _service(provider: str | None, base_url: str | None, is_routed: bool) -> _HttpService:
    """The defaults of a provider; a compatible one without an address may be OpenRouter."""
    try:
        kind = ProviderKind.COMPATIBLE if provider is None else ProviderKind(provider)
    except ValueError:
        return _HttpService(OpenAiFormat)
    if kind is ProviderKind.COMPATIBLE:
        host = None if base_url is None else urlsplit(base_url).hostname
        if host == urlsplit(_OPENROUTER).hostname or (host is None and is_routed):
            return _ROUTED
    return _SERVICES.get(kind, _HttpService(OpenAiFormat))


def _local(config: EmbedConfig) -> Embedder:
    provider = LocalEmbedder()
    if config.model not in (None, provider.model):
        message = f"the local provider has the model {provider.model!r}, not {config.model!r}"
        raise InvalidInput(Code.SETTINGS_INVALID, message)
    return provider


def _kind(config: EmbedConfig) -> ProviderKind:
    known: list[str] = [each.value for each in ProviderKind]
    if config.provider is None:
        if config.base_url is not None:
            return ProviderKind.COMPATIBLE
        raise no_provider(f"give one, or set {PROVIDER_VARIABLE} ({', '.join(known)})")
    try:
        return ProviderKind(config.provider)
    except ValueError:
        message = f"there is no embedding provider {config.provider!r}; known: {', '.join(known)}"
        raise InvalidInput(Code.SETTINGS_INVALID, message, known=[*known]) from None


def _incomplete(what: str, variable: str) -> InvalidInput:
    message = f"{what} of the embedding provider is missing: give it, or set {variable}"
    return InvalidInput(Code.SETTINGS_INVALID, message, variable=variable)


def _patience(environment: Mapping[str, str]) -> RequestPolicy:
    chosen: dict[str, int] = {}
    for name, (variable, most) in _BOUNDS.items():
        raw = environment.get(variable, "").strip()
        if not raw:
            continue
        if not (raw.isascii() and raw.isdigit() and 1 <= int(raw) <= most):
            message = f"{variable} must be a whole number from 1 to {most}, not {raw!r}"
            raise InvalidInput(Code.SETTINGS_INVALID, message, variable=variable)
        chosen[name] = int(raw)
    return RequestPolicy(**chosen)
