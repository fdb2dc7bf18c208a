"""The root of a graph: a directory, a bucket and prefix, or memory.

Parsing happens once; afterwards a root is plain data that can be pickled to a worker. Nothing is
read from the environment here. Options come in Lance's spelling (``aws_endpoint``,
``aws_access_key_id``, ``allow_http``, ...), and this module is the only one that translates them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from omnigraph.errors import Code, InvalidInput

__all__ = ["Root"]

_S3: Final = "s3"
_MEMORY: Final = "memory"
_FILE: Final = "file"
# Options that configure the connection, not the service; obstore takes them apart.
_CLIENT_FLAGS: Final = frozenset({"allow_http", "allow_invalid_certificates"})
_CLIENT_TEXTS: Final = frozenset({"connect_timeout", "timeout", "proxy_url", "user_agent"})


@dataclass(frozen=True, slots=True)
class Root:
    """The place of one graph.

    Attributes:
        uri: An absolute local path, ``s3://bucket/prefix`` or ``memory:///name``; no slash at
            the end.
        storage_options: How to reach it. Kept out of ``repr``, because it holds secrets.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, uri: str, storage_options: Mapping[str, str] | None = None) -> "Root":
        """Read a path or URI as a user writes it.

        Raises:
            InvalidInput: When the scheme is not supported or a part is missing.
        """
        options = {str(key).lower(): str(value) for key, value in (storage_options or {}).items()}
        scheme, separator, _ = uri.partition("://")
        if not uri or "\0" in uri:
            raise _invalid(uri, "is not a path")
        if not separator:
            return cls(os.path.abspath(os.path.expanduser(uri)), MappingProxyType(options))
        parts = urlsplit(uri)
        if parts.query or parts.fragment:
            raise _invalid(uri, "has a query or a fragment, which have no meaning here")
        return cls(_normal(uri, scheme.lower(), parts.netloc, parts.path), options)

    def __getstate__(self) -> tuple[str, dict[str, str]]:
        return self.uri, dict(self.storage_options)

    def __setstate__(self, state: tuple[str, dict[str, str]]) -> None:
        object.__setattr__(self, "uri", state[0])
        object.__setattr__(self, "storage_options", state[1])

    @property
    def is_local(self) -> bool:
        """True if the root is a directory of this machine."""
        return "://" not in self.uri

    @property
    def is_memory(self) -> bool:
        """True if the root lives and ends with this process."""
        return self.uri.startswith(f"{_MEMORY}://")

    @property
    def local_path(self) -> Path:
        """The directory; only for local roots."""
        if not self.is_local:
            raise ValueError(f"{self.uri} is not a local path")
        return Path(self.uri)

    @property
    def bucket(self) -> str:
        """The bucket; only for S3."""
        return urlsplit(self.uri).netloc

    @property
    def prefix(self) -> str:
        """The path inside the bucket or the memory; empty at its top."""
        return urlsplit(self.uri).path.strip("/")

    def join(self, path: str) -> str:
        """Return the full location of a path below the root, as Lance takes it."""
        return f"{self.uri}/{path}" if path else self.uri

    def s3_config(self) -> dict[str, Any]:
        """Return the options of the service, as obstore takes them."""
        client = _CLIENT_FLAGS | _CLIENT_TEXTS
        return {key: value for key, value in self.storage_options.items() if key not in client}

    def client_options(self) -> dict[str, Any]:
        """Return the options of the connection, as obstore takes them."""
        flags = {
            key: value.strip().lower() in {"true", "1", "yes", "on"}
            for key, value in self.storage_options.items()
            if key in _CLIENT_FLAGS
        }
        texts = {k: v for k, v in self.storage_options.items() if k in _CLIENT_TEXTS}
        return {**flags, **texts}


def _normal(uri: str, scheme: str, host: str, path: str) -> str:
    if scheme == _FILE:
        if host not in {"", "localhost"}:
            raise _invalid(uri, "names a host; only files of this machine can be opened")
        return os.path.abspath(unquote(path))
    segments = [segment for segment in path.split("/") if segment]
    if any(segment in {".", ".."} for segment in segments):
        raise _invalid(uri, "has '.' or '..' in its path")
    if scheme == _S3:
        if not host:
            raise _invalid(uri, "names no bucket")
        return "/".join([f"{_S3}://{host}", *segments])
    if scheme == _MEMORY:
        if host or not segments:
            raise _invalid(uri, "is not of the form memory:///name")
        return f"{_MEMORY}:///" + "/".join(segments)
    raise _invalid(
        uri, "has a scheme that is not supported: use a path, file://, s3:// or memory:///"
    )


def _invalid(uri: str, fault: str) -> InvalidInput:
    return InvalidInput(Code.INPUT_INVALID, f"{uri!r} {fault}", uri=uri)
