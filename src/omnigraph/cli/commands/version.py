"""`omnigraph version`."""

import platform
from typing import Final

from omnigraph import __version__
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json

NAME: Final = "omnigraph"
INTERNAL_SCHEMA_VERSION: Final = 6
"""The layout of a stored graph that this release writes."""


@command()
def version(as_json: Json = False) -> Status:
    """Print the release and the version of the storage layout."""
    screen = render.out()
    if as_json:
        screen.json(
            {
                "name": NAME,
                "version": __version__,
                "internal_schema_version": INTERNAL_SCHEMA_VERSION,
                "python_version": platform.python_version(),
            }
        )
    else:
        screen.line(f"{NAME} {__version__} (internal schema version {INTERNAL_SCHEMA_VERSION})")
    return Status.OK
