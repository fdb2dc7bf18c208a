"""Variables of the environment that concern the command line alone, and its settings.

OMNIGRAPH_DEBUG         show the traceback of a failure
OMNIGRAPH_HOME          the folder of the configuration, tokens, histories and caches
OMNIGRAPH_PROFILE       the profile of commands that name no graph
OMNIGRAPH_TOKEN_<NAME>  the token for the server of this name
OMNIGRAPH_BEARER_TOKEN  the token for servers that have none of their own
OMNIGRAPH_PAGER, PAGER  what shows long output on a terminal
NO_COLOR, TERM=dumb     plain output
COLUMNS                 the width of help, if not that of the terminal
FORCE_COLOR             colour even into a pipe
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from omnigraph.cli.config import Config, read_config
from omnigraph.runtime import environment
from omnigraph.runtime.settings import Settings

TOKEN_PREFIX: Final = "OMNIGRAPH_TOKEN_"
TOKEN_OF_ANY_SERVER: Final = "OMNIGRAPH_BEARER_TOKEN"
_DEBUG: Final = "OMNIGRAPH_DEBUG"
_PROFILE: Final = "OMNIGRAPH_PROFILE"
_PAGERS: Final = ("OMNIGRAPH_PAGER", "PAGER")
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def settings() -> Settings:
    """The defaults with what the environment chooses; a wrong value names its variable."""
    return environment.settings(os.environ)


def variables() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def home() -> Path:
    """The folder of the user's own files."""
    return environment.home_folder(os.environ)


def config() -> Config:
    """The configuration of the user."""
    return read_config(home())


def profile() -> str | None:
    """The profile that the environment names."""
    return os.environ.get(_PROFILE) or None


def pager() -> str | None:
    """The command that shows long output; None if the environment names none, '' for no pager."""
    found = next((os.environ[name] for name in _PAGERS if name in os.environ), None)
    return "" if found is not None and found.strip() in {"", "cat"} else found


def columns() -> int:
    """The width of the terminal in characters."""
    try:
        found = int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns)
    except (OSError, ValueError):
        found = 0
    # A terminal that nobody has told its size says 0.
    return found if found > 0 else 80


def debugging() -> bool:
    """True if a failure should show its traceback."""
    return os.environ.get(_DEBUG, "").strip().lower() not in _OFF


def wants_colour(stream: TextIO) -> bool:
    """True if a stream may carry colours: a capable terminal, or any if the user insists."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
