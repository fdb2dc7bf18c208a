"""The streams that output goes to: plain in a pipe, with colours and a pager on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Final, TextIO, cast

from omnigraph.cli.environment import columns, pager, wants_colour
from omnigraph.cli.plain import Screen

if TYPE_CHECKING:
    from omnigraph.dataplane.progress import Progress

# Shows what fits on one screen without waiting, and leaves it there; passes colours on.
_LESS: Final = ("less", "-FRX")
_fields: ContextVar[tuple[str, ...] | None] = ContextVar("fields", default=None)
_paging: ContextVar[TextIO | None] = ContextVar("paging", default=None)


def out() -> Screen:
    """Standard output, for results."""
    paged = _paging.get()
    found = _screen(sys.stdout, paged)
    found.fields = _fields.get()
    return found


def err() -> Screen:
    """Standard error, for messages."""
    return _screen(sys.stderr)


@contextmanager
def only(fields: str | None) -> Iterator[None]:
    """Print only these fields of JSON documents, while it lasts."""
    chosen = None if fields is None else tuple(each.strip() for each in fields.split(","))
    before = _fields.set(chosen)
    try:
        yield
    finally:
        _fields.reset(before)


@contextmanager
def paged(*, as_json: bool = False) -> Iterator[Screen]:
    """Standard output through a pager, if it is a terminal; what fits is shown at once."""
    command = None if as_json or not sys.stdout.isatty() else _pager()
    if command is None:
        yield out()
        return
    # Only a terminal waits for it.
    import subprocess

    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8") as shown:
        before = _paging.set(cast("TextIO", shown.stdin))
        try:
            yield out()
        except BrokenPipeError:
            pass  # the reader has seen enough
        finally:
            _paging.reset(before)
            _close(shown.stdin)


def _pager() -> list[str] | None:
    import shlex
    import shutil

    chosen = pager()
    if chosen == "":
        return None
    words = list(_LESS) if chosen is None else shlex.split(chosen)
    return words if shutil.which(words[0]) else None


def _close(stream: IO[str] | None) -> None:
    with suppress(BrokenPipeError):
        if stream is not None:
            stream.close()


@contextmanager
def progress(*, quiet: bool) -> "Iterator[Callable[[Progress], None] | None]":
    """A listener that draws progress on the terminal; None when there is none to draw on."""
    if quiet or not sys.stderr.isatty() or not wants_colour(sys.stderr):
        yield None
        return
    from omnigraph.cli.progress import Bar

    with Bar() as bar:
        yield bar


def _screen(stream: TextIO, paging: TextIO | None = None) -> Screen:
    """A screen for a stream, or for the pager that stands before it."""
    target = stream if paging is None else paging
    if not wants_colour(stream):
        return Screen(target, columns() if stream.isatty() else None)
    from omnigraph.cli.terminal import Terminal

    return Terminal(target)
