"""Requests for tests of the server."""

import http.client
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.server.config import Budgets, GraphEntry, ServerConfig
from tests.serving import Launched, Served

SCHEMA = """
node Person { name: String @key  age: I32?  avatar: Blob? }
edge Knows: Person -> Person
"""
ALL = "query all() { match { $p: Person } return { $p.name as name } order { $p.name asc } }"
G = "/graphs/g"


def config_of(folder: Path, **fields: Any) -> ServerConfig:
    """A server of one new graph."""
    place = folder / "g.omni"
    if not place.exists():
        og.init(place, SCHEMA).close()
    budgets = Budgets(**fields.pop("budgets", {}))
    return ServerConfig(graphs=(GraphEntry(id="g", uri=str(place)),), budgets=budgets, **fields)


def send(
    served: Served | Launched, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(served.host, served.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, named)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, found


def raw(served: Served | Launched, *pieces: bytes) -> bytes:
    """Bytes as they are; returns what the server says until it closes the connection."""
    with socket.create_connection((served.host, served.port), timeout=60) as connection:
        answer = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while data := connection.recv(1 << 16):
                answer += data
        except (ConnectionResetError, BrokenPipeError):
            pass
        return answer


def names(served: Served | Launched, branch: str = "main") -> list[str]:
    """The names of all people."""
    body = {"query": ALL, "branch": branch}
    status, _, found = send(served, "POST", f"{G}/query", body)
    assert status == 200, found
    return [row["name"] for row in json.loads(found)["rows"]]


def until(check: Callable[[], Any]) -> Any:
    """Wait for what other threads or processes do; the limit of a test ends it."""
    pause = threading.Event()
    while not (found := check()):
        pause.wait(0.02)
    return found
