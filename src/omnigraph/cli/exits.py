"""The ends of a command: the only place where a failure becomes a message and an exit status.

0   done; a report may contain warnings
1   failed, or a report contains errors
2   called the wrong way (the argument parser answers this one)
4   a precondition of the caller no longer holds: read again, then decide
75  not now: the same command may succeed later
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Final

from omnigraph.cli import render
from omnigraph.cli.environment import debugging
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.parameters import Exit, UsageError
from omnigraph.cli.plain import STYLE_OF
from omnigraph.errors import (
    Busy,
    Code,
    GraphError,
    Internal,
    InvalidInput,
    PreconditionFailed,
    Unavailable,
)


class Status(IntEnum):
    """The exit statuses of a command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PRECONDITION = 4
    TRY_LATER = 75


# Conflicts that go away by themselves, once somebody else is done.
_PASSING: Final = frozenset({Code.HEAD_CONTENTION, Code.WRITER_ACTIVE, Code.INIT_IN_PROGRESS})


def status_of(error: GraphError) -> Status:
    """The exit status of an error."""
    if isinstance(error, PreconditionFailed):
        return Status.PRECONDITION
    if isinstance(error, Busy | Unavailable) or error.code in _PASSING:
        return Status.TRY_LATER
    return Status.FAILED


def ended(words: Sequence[str], run: Callable[[], int]) -> int:
    """The status that a command line ends with; failures are reported, with `--json` as JSON.

    Args:
        words: The words of the command line.
        run: Runs it.
    """
    try:
        # The configuration is read before a command begins, where it decides what a word means.
        with reporting(as_json=_wants_json(words)):
            return run()
    except Exit as leaving:
        return leaving.status
    except UsageError as error:
        screen = render.err()
        screen.line(error.usage)
        screen.line(f"Try '{error.path} -h' for help.")
        screen.line()
        screen.message(("Error", STYLE_OF["error"]), f": {error}")
        if _wants_json(words):
            _show_json(InvalidInput(Code.INPUT_INVALID, str(error), usage=True))
        return Status.USAGE
    except KeyboardInterrupt:
        render.err().line("Aborted!")
        return Status.FAILED


def _wants_json(words: Sequence[str]) -> bool:
    options = words[: words.index("--")] if "--" in words else words
    return any(word == JSON_OPTION or word.startswith(f"{JSON_OPTION}=") for word in options)


@contextmanager
def reporting(*, as_json: bool = False) -> Iterator[None]:
    """Turn a failure inside into a message and a status; nothing else leaves a command.

    With `as_json` standard output still gets one document, which then holds the error.
    """
    try:
        yield
    except (Exit, UsageError, BrokenPipeError):
        raise
    except GraphError as error:
        show(error)
        if as_json:
            _show_json(error)
        raise Exit(status_of(error)) from error
    except OSError as error:
        raise Exit(output_failed(error)) from error
    except Exception as error:
        # Nobody has to read a traceback who did not ask for one.
        text = f"unexpected {type(error).__name__}: {error}; OMNIGRAPH_DEBUG=1 shows where"
        show(Internal.default(text))
        if as_json:
            _show_json(Internal.default(text))
        raise Exit(Status.FAILED) from error


def output_failed(error: OSError) -> Status:
    """Reports that output could not be written, and returns the exit status."""
    discard_output()
    reason = error.strerror or str(error)
    show(Unavailable(Code.UNAVAILABLE, f"cannot write the output: {reason}"))
    return Status.FAILED


def discard_output() -> None:
    """Discards what is still buffered for standard output, so that Python's exit does not fail."""
    # A stream that a test put in its place has no descriptor, and nothing waits in it.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(error: GraphError) -> None:
    """Print a failure for people, to standard error."""
    if debugging():
        # Nobody else waits for it.
        import traceback

        traceback.print_exc()
    screen = render.err()
    if isinstance(error, InvalidInput) and error.diagnostics:
        screen.report(str(error))
        return
    first, *rest = str(error).split("\n")
    screen.message((f"error[{error.code}]", STYLE_OF["error"]), f": {first}")
    for line in rest:
        screen.message(line)


def _show_json(error: GraphError) -> None:
    render.out().json({"status": "error", "error": error.to_json()})
