"""`omnigraph auth status`: the servers that there are tokens for."""

from typing import Final

from omnigraph.cli import environment, render
from omnigraph.cli.addresses import GraphAddress, is_url
from omnigraph.cli.credentials import stored, token_for
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing

_COLUMNS: Final = (
    ListingColumn("server", "server"),
    ListingColumn("url", "url"),
    ListingColumn("token", "token"),
    ListingColumn("origin", "from"),
)


@command("omnigraph auth status")
def auth_status(form: Form = None, as_json: Json = False) -> Status:
    """List the servers of the configuration and of kept tokens, and the token that each gets."""
    config, folder = environment.config(), environment.home()
    places = {name: GraphAddress(place=url, server=name) for name, url in config.servers.items()}
    for name in stored(folder):
        if is_url(name):
            places.setdefault(name, GraphAddress(place=name))
    records = []
    for name, address in places.items():
        token = token_for(address, folder, environment.variables())
        records.append(
            {
                "server": name,
                "url": address.place,
                "token": None if token is None else token.shown,
                "origin": None if token is None else token.origin,
            }
        )
    chosen = chosen_format(form, config.output, as_json=as_json)
    show_listing(render.out(), _COLUMNS, records, chosen)
    return Status.OK
