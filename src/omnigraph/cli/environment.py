"""What the environment may say. No other module of the package reads it.

OMNIGRAPH_<SETTING>   a setting, such as OMNIGRAPH_SOURCE_BYTES_MAX
OMNIGRAPH_DEBUG       show the traceback of a failure
NO_COLOR, TERM=dumb   plain output
FORCE_COLOR           colour even into a pipe
"""

import os
from dataclasses import fields
from typing import TextIO

from omnigraph.runtime.settings import Settings

_PREFIX = "OMNIGRAPH_"
_OFF = frozenset({"", "0", "false", "no", "off"})


def settings() -> Settings:
    """The defaults with what the environment chooses; a wrong value names its variable."""
    chosen = Settings()
    for item in fields(Settings):
        variable = f"{_PREFIX}{item.name.upper()}"
        if (value := os.environ.get(variable)) is not None:
            chosen = Settings.from_mapping({item.name: value}, origin=variable, base=chosen)
    return chosen


def debugging() -> bool:
    """Should a failure show its traceback?"""
    return os.environ.get(f"{_PREFIX}DEBUG", "").strip().lower() not in _OFF


def wants_colour(stream: TextIO) -> bool:
    """May this stream carry colours? Only a capable terminal, unless the user insists."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
