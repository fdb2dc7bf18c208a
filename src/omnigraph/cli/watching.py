"""Whether a long operation is drawn while it runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph.cli.environment import wants_colour
from omnigraph.dataplane.progress import Progress


@contextmanager
def watching(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A listener that draws on the terminal; None when there is none to draw on."""
    if quiet or not sys.stderr.isatty() or not wants_colour(sys.stderr):
        yield None
        return
    from omnigraph.cli.progress import Bar  # noqa: PLC0415

    with Bar() as bar:
        yield bar
