"""The streams that output goes to: plain in a pipe, with colours on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from omnigraph.cli.environment import wants_colour
from omnigraph.cli.plain import Screen
from omnigraph.dataplane.progress import Progress


def out() -> Screen:
    """Standard output, for results."""
    return _screen(sys.stdout)


def err() -> Screen:
    """Standard error, for messages."""
    return _screen(sys.stderr)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A listener that draws progress on the terminal; None when there is none to draw on."""
    if quiet or not sys.stderr.isatty() or not wants_colour(sys.stderr):
        yield None
        return
    from omnigraph.cli.progress import Bar

    with Bar() as bar:
        yield bar


def _screen(stream: TextIO) -> Screen:
    if not wants_colour(stream):
        return Screen(stream)
    from omnigraph.cli.terminal import Terminal

    return Terminal(stream)
