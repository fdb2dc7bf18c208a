"""Tokens of identity providers (JWT), checked by their keys.

To check one takes longer than a small read, and to fetch the keys takes a request to the provider.
So the loop takes only tokens that were checked before, and a thread checks the rest.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import Code, GraphError, InvalidInput, Unavailable
from omnigraph.runtime.clock import Clock
from omnigraph.types import Actor

_FETCH_SECONDS: Final = 10.0
# Keys are fetched again after this time: a provider may have withdrawn one.
_KEYS_NS: Final = 300 * 1_000_000_000
# So long nothing is fetched after an attempt: anybody can send tokens of keys that there are not.
_PAUSE_NS: Final = 30 * 1_000_000_000
_KNOWN_US: Final = 300 * 1_000_000
_KNOWN_MAX: Final = 1_024


class JwtIssuer:
    """Finds the actor of a token of one identity provider. Thread-safe.

    Settings: `issuer`, `audience`, `algorithms` (a list), and `jwks_url` or `key_file`; `actor`
    names the claim that says who it is, by default `sub`.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        """Check tokens by these settings.

        Raises:
            InvalidInput: One of them is missing.
        """
        import jwt  # noqa: PLC0415  # only servers with such settings need it

        known = {"issuer", "audience", "algorithms", "jwks_url", "key_file", "actor"}
        missing = {"issuer", "audience", "algorithms"} - set(settings)
        sources = {"jwks_url", "key_file"} & set(settings)
        if missing or set(settings) - known or len(sources) != 1:
            text = f"jwt has issuer, audience, algorithms and jwks_url or key_file: {settings!r}"
            raise InvalidInput(Code.SETTINGS_INVALID, text)
        self._jwt = jwt
        self._clock = clock
        self._settings = settings
        self._algorithms = [str(each) for each in settings["algorithms"]]
        if "none" in (each.lower() for each in self._algorithms):
            raise InvalidInput(Code.SETTINGS_INVALID, "tokens are signed: `none` is no algorithm")
        self._key: str | None = None
        self._keys: _Keys | None = None
        if "key_file" in settings:
            self._key = _read(Path(settings["key_file"]))
        else:
            self._keys = _Keys(jwt, settings["jwks_url"], clock)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[str, int]] = OrderedDict()

    def known(self, token: str) -> str | None:
        """The actor of a token that was checked a while ago and is valid still; None if it was not.

        It neither computes nor waits.
        """
        found = self._known.get(_digest(token))
        if found is None or found[1] <= self._clock.now_us():
            return None
        return found[0]

    def actor_of(self, token: str) -> str | None:
        """The actor of a token; None if it is not one that this provider made, or has expired.

        Raises:
            Unavailable: The keys of the provider cannot be fetched now.
        """
        try:
            key = self._key if self._keys is None else self._keys.find(token)
            if key is None:
                return None
            claims = self._jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=self._settings["audience"],
                issuer=self._settings["issuer"],
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            actor = Actor(str(claims[self._settings.get("actor", "sub")]))
            expires_us = int(claims["exp"]) * 1_000_000
        except Unavailable:
            raise
        except (self._jwt.PyJWTError, KeyError, ValueError, GraphError):
            return None
        with self._lock:
            self._known[_digest(token)] = actor, min(expires_us, self._clock.now_us() + _KNOWN_US)
            while len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)
        return actor


class _Keys:
    """The public keys of a provider, by their ids. Thread-safe."""

    def __init__(self, jwt: Any, url: str, clock: Clock) -> None:
        self._jwt = jwt
        self._client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=_FETCH_SECONDS)
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] | None = None
        self._tried: int | None = None

    def find(self, token: str) -> Any:
        """The key that a token says that it is signed with; None if there is none."""
        name = self._jwt.get_unverified_header(token).get("kid")
        with self._lock:
            passed = None if self._tried is None else self._clock.ticks_ns() - self._tried
            is_old = self._keys is None or name not in self._keys
            if passed is None or passed > (_PAUSE_NS if is_old else _KEYS_NS):
                self._fetch()
            if self._keys is None:
                text = "the keys of the identity provider cannot be fetched now"
                raise Unavailable(Code.UNAVAILABLE, text)
            return self._keys.get(name)

    def _fetch(self) -> None:
        """Fetch them; those that are known stay if that fails."""
        try:
            self._keys = {each.key_id: each.key for each in self._client.get_signing_keys()}
        except self._jwt.PyJWTError:
            pass
        finally:
            self._tried = self._clock.ticks_ns()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        text = f"the keys of the identity provider cannot be read from {path}: {error}"
        raise InvalidInput(Code.SETTINGS_INVALID, text) from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
