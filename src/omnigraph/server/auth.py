"""The actor of a request, by the bearer tokens of a file or those of an identity provider.

The file holds digests only: `{"tokens": [{"sha256": "...", "actor": "ada", "expires": "..."}]}`.
It is read again when it has changed. The actor of a request comes from its token alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from omnigraph.errors import Code, GraphError, InvalidInput, Unauthenticated
from omnigraph.runtime.clock import Clock
from omnigraph.server.identity import JwtIssuer
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
        except (OSError, ValueError, LookupError, TypeError, AttributeError, GraphError) as error:
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


class Authenticator:
    """Finds the actor of a request by its `Authorization` header."""

    def __init__(self, tokens: TokenFile | None, issuer: JwtIssuer | None) -> None:
        """Check tokens by these; without both, every actor is anonymous."""
        self._tokens = tokens
        self._issuer = issuer

    @property
    def is_open(self) -> bool:
        """True if no token is needed."""
        return self._tokens is None and self._issuer is None

    def known(self, headers: list[str]) -> str | None:
        """The actor of a request, by the values of its `Authorization` headers.

        None if the token has to be checked, which may take long.

        Raises:
            Unauthenticated: There is no token, or it is not valid.
        """
        if self.is_open:
            return ANONYMOUS
        token = _bearer(headers)
        if self._issuer is not None and not self._is_kept(token):
            return self._issuer.known(token)
        found = None if self._tokens is None else self._tokens.actor_of(token)
        if found is None:
            raise _invalid()
        return found

    async def actor(self, headers: list[str]) -> str:
        """The actor of a request, whose token is checked on a thread where that may take long.

        Raises:
            Unauthenticated: There is no token, or it is not valid.
            Unavailable: The keys of the identity provider cannot be fetched now.
        """
        found = self.known(headers)
        if found is None and self._issuer is not None:
            found = await asyncio.to_thread(self._issuer.actor_of, _bearer(headers))
        if found is None:
            raise _invalid()
        return found

    def _is_kept(self, token: str) -> bool:
        """True for a token of the file of tokens."""
        return self._tokens is not None and token.startswith(PREFIX)


def _bearer(headers: list[str]) -> str:
    if not headers:
        raise Unauthenticated(Code.UNAUTHENTICATED, "missing bearer token")
    scheme, _, token = headers[0].partition(" ")
    token = token.strip()
    is_wrong = len(headers) > 1 or scheme.lower() != "bearer" or len(token) > _TOKEN_CHARS_MAX
    if is_wrong or not token:
        raise _invalid()
    return token


def _invalid() -> Unauthenticated:
    return Unauthenticated(Code.UNAUTHENTICATED, "invalid bearer token")
