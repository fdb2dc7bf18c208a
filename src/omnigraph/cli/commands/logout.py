"""`omnigraph logout`: forgets the token of a server."""

from omnigraph.cli import environment, render
from omnigraph.cli.addresses import server_of
from omnigraph.cli.commands.login import Server
from omnigraph.cli.credentials import forget
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json


@command("omnigraph logout prod")
def logout(server: Server, as_json: Json = False) -> Status:
    """Forget the token of a server."""
    url, name = server_of(server, environment.config())
    was_there = forget(environment.home(), name or url)
    if as_json:
        render.out().json({"server": name or url, "url": url, "forgotten": was_there})
    else:
        told = "is forgotten" if was_there else "was not kept here"
        render.out().line(f"the token for {url} {told}")
    return Status.OK
