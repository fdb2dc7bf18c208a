"""`omnigraph login`: keeps the token of a server."""

import getpass
import sys
from typing import Annotated

from omnigraph.cli import environment, render
from omnigraph.cli.addresses import server_of
from omnigraph.cli.credentials import keep
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Argument, Option

Server = Annotated[
    str, Argument(metavar="SERVER", help="Its name in the configuration, or its URL.")
]


@command(
    "omnigraph login prod < token.txt",
    "omnigraph login https://graphs.example.com",
)
def login(
    server: Server,
    token: Annotated[
        str | None,
        Option("--token", metavar="TEXT", help="The token; other users may see it there."),
    ] = None,
    as_json: Json = False,
) -> Status:
    """Keep the token of a server, in a file that only you may read.

    The token is read from standard input, or asked for on a terminal.
    """
    url, name = server_of(server, environment.config())
    if token is None:
        asked = f"token for {url}: "
        token = getpass.getpass(asked) if sys.stdin.isatty() else sys.stdin.readline()
    path = keep(environment.home(), name or url, token.strip())
    if as_json:
        render.out().json({"server": name or url, "url": url, "file": str(path)})
    else:
        render.out().line(f"the token for {url} is in {path}")
    return Status.OK
