"""The actor of a request: bearer tokens of a file, and tokens of identity providers.

The file holds digests only: `{"tokens": [{"sha256": "...", "actor": "ada", "expires": "..."}]}`.
It is read again when it has changed. The actor of a request comes from its token alone.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import Code, GraphError, InvalidInput, Unauthenticated
from omnigraph.runtime.clock import Clock
from omnigraph.types import Actor

PREFIX: Final = "og_"
ANONYMOUS: Final = "anonymous"
_TOKEN_CHARS_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class _Holder:
    actor: str
    expires_us: int | None


class TokenFile:
    """The bearer tokens of a file, by digest. Thread-safe."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read a file.

        Raises:
            InvalidInput: It cannot be read. Later, a file that cannot be read changes nothing.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._holders: dict[str, _Holder] = {}
        self.problem: str | None = None
        self._refresh()
        if self.problem is not None:
            raise InvalidInput(Code.SETTINGS_INVALID, self.problem)

    def actor_of(self, token: str) -> str | None:
        """The actor of a token; None if it is unknown or has expired."""
        self._refresh()
        holder = self._holders.get(digest(token))
        if holder is None:
            return None
        if holder.expires_us is not None and holder.expires_us <= self._clock.now_us():
            return None
        return holder.actor

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return
            holders = _read_holders(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, GraphError) as error:
            self.problem = f"the file of tokens {self._path} cannot be read: {error}"
            return
        with self._lock:
            self._holders, self._stamp, self.problem = holders, stamp, None


def _read_holders(text: str) -> dict[str, _Holder]:
    found: dict[str, _Holder] = {}
    for item in json.loads(text)["tokens"]:
        expires = item.get("expires")
        moment = None
        if expires is not None:
            parsed = datetime.fromisoformat(expires)
            if parsed.tzinfo is None:
                parsed = parsed.replace(tzinfo=UTC)
            moment = int(parsed.timestamp() * 1_000_000)
        if len(item["sha256"]) != 64:
            raise ValueError("a token is kept as its SHA-256 in hexadecimal digits")
        found[item["sha256"].lower()] = _Holder(Actor(item["actor"]), moment)
    return found


def digest(token: str) -> str:
    """The digest by which a token is known."""
    return hashlib.sha256(token.encode()).hexdigest()


class JwtIssuer:
    """Tokens of an identity provider, checked by its keys.

    Settings: `issuer`, `audience`, `algorithms` (a list), and `jwks_url` or `key_file`; `actor`
    names the claim that says who it is, by default `sub`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Check tokens by these settings.

        Raises:
            InvalidInput: One of them is missing.
        """
        import jwt  # noqa: PLC0415  # only servers that are told to need it

        known = {"issuer", "audience", "algorithms", "jwks_url", "key_file", "actor"}
        missing = {"issuer", "audience", "algorithms"} - set(settings)
        if missing or set(settings) - known:
            text = f"jwt has issuer, audience, algorithms and jwks_url or key_file: {settings!r}"
            raise InvalidInput(Code.SETTINGS_INVALID, text)
        self._jwt = jwt
        self._settings = settings
        self._algorithms = [str(each) for each in settings["algorithms"]]
        if "none" in (each.lower() for each in self._algorithms):
            raise InvalidInput(Code.SETTINGS_INVALID, "tokens are signed: `none` is no algorithm")
        self._key: Any = None
        self._keys: Any = None
        if "key_file" in settings:
            self._key = Path(settings["key_file"]).read_text(encoding="utf-8")
        else:
            self._keys = jwt.PyJWKClient(settings["jwks_url"], timeout=10)

    def actor_of(self, token: str) -> str | None:
        """The actor of a token; None if it is not one that this provider made, or has expired."""
        try:
            key = self._key or self._keys.get_signing_key_from_jwt(token).key
            claims = self._jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=self._settings["audience"],
                issuer=self._settings["issuer"],
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            return Actor(str(claims[self._settings.get("actor", "sub")]))
        except (self._jwt.PyJWTError, KeyError, GraphError):
            return None


class Authenticator:
    """Finds the actor of a request by its `Authorization` header."""

    def __init__(self, tokens: TokenFile | None, issuer: JwtIssuer | None) -> None:
        """Ask these; without both, every actor is anonymous."""
        self._tokens = tokens
        self._issuer = issuer

    @property
    def is_open(self) -> bool:
        """True if no token is needed."""
        return self._tokens is None and self._issuer is None

    def actor(self, headers: list[str]) -> str:
        """The actor of a request, by the values of its `Authorization` headers.

        Raises:
            Unauthenticated: There is no token, or it is not valid.
        """
        if self.is_open:
            return ANONYMOUS
        if not headers:
            raise Unauthenticated(Code.UNAUTHENTICATED, "missing bearer token")
        scheme, _, token = headers[0].partition(" ")
        token = token.strip()
        is_wrong = len(headers) > 1 or scheme.lower() != "bearer" or len(token) > _TOKEN_CHARS_MAX
        found = None
        if not is_wrong and token:
            if self._tokens is not None and token.startswith(PREFIX):
                found = self._tokens.actor_of(token)
            elif self._issuer is not None:
                found = self._issuer.actor_of(token)
            elif self._tokens is not None:
                found = self._tokens.actor_of(token)
        if found is None:
            raise Unauthenticated(Code.UNAUTHENTICATED, "invalid bearer token")
        return found
