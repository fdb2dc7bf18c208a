"""The configuration of a server: which graphs it serves, where it listens, and its budgets."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from omnigraph.errors import Code, InvalidInput, NotFound

_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_SUFFIX: Final = ".omni"
_RESERVED: Final = frozenset({"discovery", "policies"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEntry:
    """A graph to be served.

    Attributes:
        id: Its name in addresses.
        uri: Where it lives.
        queries: The folder of its stored queries; None for none.
    """

    id: str
    uri: str
    queries: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The bounds of a server. Each error about one of them names it.

    Attributes:
        body_bytes: The largest body, but for loads.
        load_bytes: The largest body of a load, as it comes in.
        load_decompressed_bytes: The same after decompression.
        body_bytes_per_actor: The bytes of bodies that one actor may have in memory at once.
        spool_bytes_per_actor: The bytes that loads of one actor may have in temporary files at
            once: those of Arrow, Parquet and several parts. Lines are read while they come.
        loads_per_actor: How many loads one actor may have at once.
        requests_per_second: How many requests an actor may make in the long run; 0 for any number.
        writes_per_actor: How many writes of one actor may be in flight.
        body_idle_seconds: How long a client may send or take next to nothing (16 kB) of a body.
        query_seconds: The deadline of a query that names none.
        read_threads: How many reads run at once.
        write_threads: How many writes run at once.
        bulk_threads: How many loads, exports and jobs run at once.
        event_streams: How many clients may watch events at once.
        waiting: How many requests may wait for a thread of one kind.
        shutdown_seconds: How long requests may take to end when the server does.
    """

    body_bytes: int = 1 << 20
    load_bytes: int = 64 << 30
    load_decompressed_bytes: int = 256 << 30
    body_bytes_per_actor: int = 256 << 20
    spool_bytes_per_actor: int = 64 << 30
    loads_per_actor: int = 4
    requests_per_second: int = 0
    writes_per_actor: int = 16
    body_idle_seconds: int = 30
    query_seconds: int = 60
    read_threads: int = 8
    write_threads: int = 4
    bulk_threads: int = 4
    event_streams: int = 64
    waiting: int = 256
    shutdown_seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The whole configuration of a server.

    Attributes:
        graphs: The graphs.
        host: Where it listens.
        port: The port; 0 for any free one.
        tokens: The file of bearer tokens; None for none.
        jwt: How tokens of an identity provider are checked; None if there are none.
        unauthenticated: Let everybody in from anywhere, though there are no tokens.
        load_prefixes: Where loads by reference may read from.
        jobs: The folder in which jobs are kept, and their parts unless `exports` says otherwise.
        exports: A place on S3 for the parts of export jobs; clients fetch them there, by signed
            addresses.
        storage: How to reach S3; None for the usual `AWS_*` variables.
        budgets: Its bounds.
    """

    graphs: tuple[GraphEntry, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    tokens: Path | None = None
    jwt: Mapping[str, Any] | None = None
    unauthenticated: bool = False
    load_prefixes: tuple[str, ...] = ()
    jobs: Path | None = None
    exports: str | None = None
    storage: Mapping[str, str] | None = None
    budgets: Budgets = field(default_factory=Budgets)

    def __post_init__(self) -> None:
        """Refuse what would serve the wrong graphs, or give access to everyone by accident."""
        seen: set[str] = set()
        for entry in self.graphs:
            if not _ID.fullmatch(entry.id) or entry.id in _RESERVED:
                raise _refused(f"graph id {entry.id!r} is not made of letters, digits and '-'")
            if entry.id in seen or entry.uri in seen:
                raise _refused(f"graph {entry.id!r} is served twice: each id and address once")
            seen |= {entry.id, entry.uri}
        if not self.graphs:
            raise _refused("there is no graph to serve")
        if self.exports is not None and not self.exports.startswith("s3://"):
            raise _refused(f"exports lie on S3 or in the folder of jobs, not at {self.exports!r}")
        if self.is_open and not self.unauthenticated and not _is_loopback(self.host):
            raise _refused(
                f"without tokens a server listens on a loopback address only, not on {self.host}; "
                "name a file with --tokens, or let everybody in with --unauthenticated"
            )

    @property
    def is_open(self) -> bool:
        """True if no token is needed."""
        return self.tokens is None and self.jwt is None


def found_graphs(place: str) -> tuple[GraphEntry, ...]:
    """The graph at a place, or those in a folder of graphs.

    Raises:
        NotFound: There is neither.
    """
    path = Path(place)
    if path.suffix == _SUFFIX and "://" not in place and not (path / "__manifest").exists():
        raise NotFound(Code.NOT_FOUND, f"there is no graph at {place}", path=place)
    if "://" in place or (path / "__manifest").exists():
        name = re.sub(r"[^A-Za-z0-9-]", "-", Path(place.rstrip("/")).stem) or "graph"
        queries = None if "://" in place else path.resolve().parent / "queries"
        return (GraphEntry(id=name[:64], uri=place, queries=queries),)
    if not path.is_dir():
        raise NotFound(Code.FILE_NOT_FOUND, f"there is no graph and no folder {place}", path=place)
    found = sorted(each for each in path.iterdir() if (each / "__manifest").exists())
    return tuple(
        GraphEntry(
            id=re.sub(r"[^A-Za-z0-9-]", "-", each.stem)[:64],
            uri=str(each),
            queries=path / "queries" / each.stem,
        )
        for each in found
    )


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a configuration file, for `ServerConfig`.

    Raises:
        InvalidInput: It cannot be read, or has unknown fields.
    """
    place = Path(path)
    try:
        raw = yaml.safe_load(place.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _refused(f"the file {place} cannot be read: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("graphs"), dict):
        raise _refused(f"{place} has no `graphs`: a mapping from ids to addresses")
    here = place.resolve().parent
    known = {"graphs", "bind", "tokens", "jwt", "unauthenticated", "load_prefixes", "jobs"}
    known |= {"exports", "storage"}
    if unknown := sorted(set(raw) - known - {"budgets"}):
        raise _refused(f"{place} has the unknown field {unknown[0]!r}; known: {sorted(known)}")
    entries = tuple(_entry(name, item, here) for name, item in raw["graphs"].items())
    found: dict[str, Any] = {"graphs": entries}
    if "bind" in raw:
        found["host"], found["port"] = address(str(raw["bind"]))
    for name in ("tokens", "jobs"):
        if raw.get(name) is not None:
            found[name] = here / str(raw[name])
    for name in ("jwt", "unauthenticated", "exports", "storage"):
        if raw.get(name) is not None:
            found[name] = raw[name]
    jwt = found.get("jwt")
    if isinstance(jwt, dict) and isinstance(jwt.get("key_file"), str):
        found["jwt"] = {**jwt, "key_file": str(here / jwt["key_file"])}
    prefixes = map(str, raw.get("load_prefixes") or ())
    found["load_prefixes"] = tuple(
        each if "://" in each else os.path.abspath(here / each) for each in prefixes
    )
    found["budgets"] = budgets(raw.get("budgets") or {}, str(place))
    return found


def _entry(name: Any, raw: Any, here: Path) -> GraphEntry:
    fields = raw if isinstance(raw, dict) else {"uri": raw}
    if set(fields) - {"uri", "queries"} or not isinstance(fields.get("uri"), str):
        raise _refused(f"graph {name!r} has a `uri`, perhaps `queries`, and nothing else")
    uri: str = fields["uri"]
    queries = fields.get("queries")
    return GraphEntry(
        id=str(name),
        uri=uri if "://" in uri else str(here / uri),
        queries=None if queries is None else here / str(queries),
    )


def budgets(raw: Mapping[str, Any], origin: str) -> Budgets:
    """Budgets of a file; numbers only."""
    known = Budgets.__dataclass_fields__
    for name, value in raw.items():
        if name not in known or not isinstance(value, int) or value < 0:
            raise _refused(f"{origin}: there is no budget {name!r} with the value {value!r:.40}")
    return Budgets(**raw)


def address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise _refused(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(text: str) -> InvalidInput:
    return InvalidInput(Code.SETTINGS_INVALID, text)
