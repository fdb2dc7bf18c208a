"""`omnigraph profile show`: one profile of the configuration."""

from typing import Annotated

from omnigraph.cli import environment, render
from omnigraph.cli.addresses import GraphWords, resolve
from omnigraph.cli.commands.profile_list import profile_record
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Argument, UsageError


@command("omnigraph profile show work")
def profile_show(
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="The profile; by default OMNIGRAPH_PROFILE."),
    ] = None,
    as_json: Json = False,
) -> Status:
    """Show one profile, and the graph that it names."""
    config = environment.config()
    chosen = name or environment.profile()
    if chosen is None:
        raise UsageError("name a profile; `omnigraph profile list` shows them")
    address = resolve(GraphWords(profile=chosen), config, None)
    is_active = chosen == environment.profile()
    record = profile_record(chosen, config.profiles[chosen], is_active=is_active)
    if as_json:
        render.out().json({**record, "address": str(address)})
        return Status.OK
    for key, value in {**record, "address": str(address)}.items():
        if value not in (None, False):
            shown = "yes" if value is True else value
            render.out().line(f"{key.replace('_', ' ') + ':':<15}{shown}")
    return Status.OK
