"""Where output goes, and whether it is dressed up: plain in a pipe, colours on a terminal."""

import sys
from typing import TextIO

from omnigraph.cli.environment import wants_colour
from omnigraph.cli.plain import Screen


def out() -> Screen:
    """Standard output: what was asked for."""
    return _screen(sys.stdout)


def err() -> Screen:
    """Standard error: everything else."""
    return _screen(sys.stderr)


def _screen(stream: TextIO) -> Screen:
    if not wants_colour(stream):
        return Screen(stream)
    from omnigraph.cli.terminal import Terminal

    return Terminal(stream)
