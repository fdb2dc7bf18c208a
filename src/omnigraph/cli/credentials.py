"""Tokens of servers: where they are kept, and which server gets which.

The file `credentials` beside the configuration has a section for each server, by its name or its
URL. Nobody but its owner may read it. A token is sent to its own server alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.cli.addresses import GraphAddress
from omnigraph.cli.environment import TOKEN_OF_ANY_SERVER, TOKEN_PREFIX
from omnigraph.errors import Code, Forbidden, InvalidInput

if TYPE_CHECKING:
    from configparser import ConfigParser

FILE: Final = "credentials"
_KEY: Final = "token"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the place that it was found in."""

    text: str
    origin: str

    def __repr__(self) -> str:
        return f"Token({self.shown!r}, origin={self.origin!r})"

    @property
    def shown(self) -> str:
        """Enough of it to tell it from others."""
        return f"{self.text[:6]}…" if len(self.text) > 12 else "…"


def token_for(address: GraphAddress, folder: Path, variables: Mapping[str, str]) -> Token | None:
    """The token for a server: of its own variable, of the file, or of the variable for all.

    Raises:
        Forbidden: Others may read the file.
    """
    if address.server is not None:
        name = "".join(c if c.isalnum() else "_" for c in address.server.upper())
        if found := variables.get(TOKEN_PREFIX + name):
            return Token(found, TOKEN_PREFIX + name)
    kept = stored(folder)
    for section in (address.server, address.place):
        if section is not None and section in kept:
            return Token(kept[section], str(folder / FILE))
    if found := variables.get(TOKEN_OF_ANY_SERVER):
        return Token(found, TOKEN_OF_ANY_SERVER)
    return None


def stored(folder: Path) -> dict[str, str]:
    """The tokens of the file, by server.

    Raises:
        Forbidden: Others may read the file.
        InvalidInput: It is no such file.
    """
    path = folder / FILE
    try:
        mode = path.stat().st_mode
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            text = f"others may read {path}, so its tokens are not used; run: chmod 600 {path}"
            raise Forbidden(Code.FORBIDDEN, text, path=str(path))
        written = path.read_bytes()
    except FileNotFoundError:
        return {}
    # Most commands need no token, and should not wait for it.
    import configparser

    try:
        parser = _parser()
        parser.read_string(written.decode())
    except (configparser.Error, UnicodeDecodeError) as error:
        text = f"{path} cannot be understood: {error}"
        raise InvalidInput(Code.SETTINGS_INVALID, text, path=str(path)) from error
    return {
        name: parser.get(name, _KEY) for name in parser.sections() if parser.has_option(name, _KEY)
    }


def keep(folder: Path, server: str, token: str) -> Path:
    """Write the token of a server to the file, which only its owner may read."""
    if not token.isascii() or not token.isprintable() or not token.strip() or " " in token:
        raise InvalidInput(Code.INPUT_INVALID, "a token is printable ASCII without spaces")
    return _write(folder, {**stored(folder), server: token})


def forget(folder: Path, server: str) -> bool:
    """Remove the token of a server; False if there was none."""
    kept = stored(folder)
    if kept.pop(server, None) is None:
        return False
    _write(folder, kept)
    return True


def _write(folder: Path, tokens: Mapping[str, str]) -> Path:
    parser = _parser()
    for server, token in sorted(tokens.items()):
        parser[server] = {_KEY: token}
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, fresh = folder / FILE, folder / f".{FILE}.new"
    # Made with the permissions that it keeps: at no moment can anybody else read it.
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        parser.write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    return path


def _parser() -> ConfigParser:
    import configparser

    # A URL has a colon in it, and a token may have any sign.
    return configparser.ConfigParser(interpolation=None, delimiters=("=",), default_section="")
