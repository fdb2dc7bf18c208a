"""Variables of the environment that concern the command line alone, and its settings.

OMNIGRAPH_DEBUG       show the traceback of a failure
NO_COLOR, TERM=dumb   plain output
FORCE_COLOR           colour even into a pipe
"""

import os
from typing import Final, TextIO

from omnigraph.runtime import environment
from omnigraph.runtime.settings import Settings

_DEBUG: Final = "OMNIGRAPH_DEBUG"
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def settings() -> Settings:
    """The defaults with what the environment chooses; a wrong value names its variable."""
    return environment.settings(os.environ)


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
