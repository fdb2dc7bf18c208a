"""`omnigraph api`: a request to a server, as it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_bytes
from omnigraph.cli.lazy import command
from omnigraph.cli.parameters import Argument, Option, UsageError
from omnigraph.cli.targets import Target
from omnigraph.client.transport import HttpTransport, segment

_TIMEOUT_S = 600.0


@command(
    "omnigraph api --server prod GET /healthz",
    "omnigraph api https://host/graphs/people GET branches",
    "omnigraph api --profile work POST query -F query='query q() { match { $p: Person } … }'",
    needs_graph=False,
)
def api(
    target: Target,
    method: Annotated[str, Argument(metavar="METHOD", help="GET, POST, DELETE and so on.")],
    path: Annotated[
        str,
        Argument(metavar="PATH", help="With a slash that of the server, else of the graph."),
    ],
    field: Annotated[
        list[str] | None,
        Option(
            "--field", "-F", metavar="NAME=VALUE", help="A field of the JSON body; may be repeated."
        ),
    ] = None,
    body: Annotated[
        Path | None,
        Option("--input", metavar="FILE", help="The body; - for standard input."),
    ] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="NAME:VALUE", help="A header; may be repeated."),
    ] = None,
) -> Status:
    """Send a request to a server with its token, and print the answer."""
    if not target.address.is_remote:
        raise UsageError("name a server: --server, --profile or a https:// address")
    headers = dict(_pair(text, ":") for text in header or ())
    sent: Any = None if body is None else read_bytes(body, settings())
    if field:
        sent = {name: _value(value) for name, value in (_pair(text, "=") for text in field)}
    transport = HttpTransport(target.address.place, target.token, _TIMEOUT_S)
    try:
        answer = transport.request(method.upper(), _path(target, path), body=sent, headers=headers)
    finally:
        transport.close()
    if "json" in answer.headers.get("content-type", "") and sys.stdout.isatty():
        render.out().json(answer.json())
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer.body)
    return Status.OK


def _path(target: Target, path: str) -> str:
    if path.startswith("/"):
        return path
    if target.address.graph is None:
        raise UsageError(f"{path} is of a graph; name it with --graph, or begin with /")
    return f"/graphs/{segment(target.address.graph)}/{path}"


def _pair(text: str, mark: str) -> tuple[str, str]:
    name, is_there, value = text.partition(mark)
    if not is_there or not name:
        raise UsageError(f"{text!r} is not of the form NAME{mark}VALUE")
    return name.strip(), value.strip()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
