"""Reaching graphs behind servers."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from omnigraph.client.remote_graph import RemoteGraph
from omnigraph.client.transport import HttpTransport
from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.environment import TOKEN_VARIABLE

_TIMEOUT_S: Final = 600.0
_GRAPHS: Final = "/graphs/"


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout: float = _TIMEOUT_S
) -> RemoteGraph:
    """Reach a graph behind a server; the same calls, results and errors as for an open graph.

    Example:
        ```text
        remote = og.connect("http://127.0.0.1:8080", graph="people")
        remote.query("query all() { match { $p: Person } return { $p.name } }")
        ```

    Args:
        url: The address of the server, or that of the graph: `http://host:8080/graphs/people`.
        graph: The id of the graph; needed if the address does not name it and the server has
            several.
        token: The bearer token; by default `OMNIGRAPH_BEARER_TOKEN`.
        timeout: How many seconds the server may be silent.

    Raises:
        InvalidInput: The address cannot be understood, or no graph is named.
        Unavailable: The server cannot be reached.
    """
    base, found = split_address(url)
    if graph is None:
        graph = found
    transport = HttpTransport(base, token or os.environ.get(TOKEN_VARIABLE), timeout)
    if graph is None:
        graph = _only_graph(transport)
    return RemoteGraph(transport, base, graph)


def split_address(url: str) -> tuple[str, str | None]:
    """The address of a server, and the id of the graph if it names one."""
    base, is_there, rest = url.partition(_GRAPHS)
    urlsplit(base)
    return base.rstrip("/"), unquote(rest.strip("/")) if is_there and rest.strip("/") else None


def _only_graph(transport: HttpTransport) -> str:
    listed: list[dict[str, Any]] = transport.request("GET", "/graphs").json()["graphs"]
    if len(listed) == 1:
        return str(listed[0]["graph_id"])
    names = ", ".join(str(item["graph_id"]) for item in listed)
    text = f"the server has {len(listed)} graphs ({names}): say which one, graph=..."
    raise InvalidInput(Code.INPUT_INVALID, text)
