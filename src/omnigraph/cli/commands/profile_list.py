"""`omnigraph profile list`: the profiles of the configuration."""

from typing import Final

from omnigraph.cli import environment, render
from omnigraph.cli.config import Place
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.errors import JsonValue

_COLUMNS: Final = (
    ListingColumn("name", "profile"),
    ListingColumn("store", "store"),
    ListingColumn("server", "server"),
    ListingColumn("default_graph", "graph"),
    ListingColumn("active", "active"),
)


@command("omnigraph profile list")
def profile_list(form: Form = None, as_json: Json = False) -> Status:
    """List the profiles of the configuration."""
    config = environment.config()
    active = environment.profile()
    records = [
        profile_record(name, place, is_active=name == active)
        for name, place in config.profiles.items()
    ]
    chosen = chosen_format(form, config.output, as_json=as_json)
    show_listing(render.out(), _COLUMNS, records, chosen)
    return Status.OK


def profile_record(name: str, place: Place, *, is_active: bool) -> dict[str, JsonValue]:
    """A profile in plain values."""
    return {
        "name": name,
        "store": place.store,
        "server": place.server,
        "default_graph": place.graph,
        "active": is_active,
    }
