"""`omnigraph config explain`: shows which graph a command would use, and why."""

from omnigraph.cli import environment, render
from omnigraph.cli.credentials import token_for
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.targets import Target


@command(
    "omnigraph config explain",
    "omnigraph config explain --profile work",
    branch=True,
    needs_graph=False,
)
def config_explain(target: Target, as_json: Json = False) -> Status:
    """Say which graph, branch and actor a command would use, and what chose them."""
    address = target.address
    token = None
    if address.is_remote:
        token = token_for(address, environment.home(), environment.variables())
    facts = {
        "graph": address.uri,
        "chosen_by": address.origin,
        "branch": target.on,
        "actor": target.actor,
        "server": address.server,
        "token": None if token is None else f"{token.shown} of {token.origin}",
        "output": target.config.output or "table",
        "config_file": str(target.config.path),
    }
    if as_json:
        render.out().json(facts)
    else:
        for name, value in facts.items():
            if value is not None:
                render.out().line(f"{name.replace('_', ' ') + ':':<13}{value}")
    return Status.OK
