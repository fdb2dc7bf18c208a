"""Addresses of loads by reference: which of them a server reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from omnigraph.errors import Code, Forbidden

_FILE: Final = "file://"
_WILDCARDS: Final = frozenset("*?[")


def permitted(uri: str, prefixes: Sequence[str]) -> str:
    """The address, if it lies below a prefix that the operator named.

    Folders of this machine are compared as they are stored: neither a link nor an encoded `..`
    leads out of a prefix. A pattern is no address.

    Raises:
        Forbidden: It lies below none of them.
    """
    is_plain = _WILDCARDS.isdisjoint(uri) and ".." not in unquote(uri).split("/")
    if is_plain and any(_is_below(uri, prefix) for prefix in prefixes):
        return uri
    text = "loads by reference read below the prefixes that this server allows, and this is none"
    raise Forbidden(Code.FORBIDDEN, text)


def _is_below(uri: str, prefix: str) -> bool:
    if not uri.startswith(prefix if prefix.endswith("/") else f"{prefix}/"):
        return False
    if not _is_local(uri):
        return True
    root, place = _stored(prefix), _stored(uri)
    return all(_is_inside(root, each) for each in (place, *_links_below(place)))


def _is_local(uri: str) -> bool:
    return "://" not in uri or uri.startswith(_FILE)


def _stored(uri: str) -> str:
    """The place of a local address, without links."""
    return os.path.realpath(unquote(urlsplit(uri).path) if uri.startswith(_FILE) else uri)


def _is_inside(root: str, place: str) -> bool:
    return place.startswith(os.path.join(root, ""))


def _links_below(place: str) -> list[str]:
    """The places that the links of a folder name; none if it is a file."""
    return [
        os.path.realpath(path)
        for folder, folders, files in os.walk(place)
        for name in (*folders, *files)
        if os.path.islink(path := os.path.join(folder, name))
    ]
