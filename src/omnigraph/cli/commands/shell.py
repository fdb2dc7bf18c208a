"""`omnigraph shell`: runs queries interactively."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.cli import environment, render
from omnigraph.cli.exits import Status
from omnigraph.cli.extras import extra
from omnigraph.cli.lazy import command
from omnigraph.cli.targets import Target

if TYPE_CHECKING:
    from omnigraph.cli.shell.session import Session


@command("omnigraph shell people.omni", "omnigraph shell people.omni < queries.gq", branch=True)
def shell(target: Target) -> Status:
    """Ask and change a graph interactively, or run statements of standard input.

    Statements are queries, or their parts: match { … } return { … }, insert, update, delete.
    `:help` lists the commands of the shell.
    """
    from omnigraph.cli.shell.session import Session
    from omnigraph.runtime.clock import SystemClock

    with target.open("rw") as graph:
        session = Session(graph, target.on, SystemClock())
        if not sys.stdin.isatty():
            for text in statements(iter(sys.stdin.readline, "")):
                session.run(text)
                if session.is_over:
                    break
            return Status.FAILED if session.has_failed else Status.OK
        _converse(session, target)
    return Status.OK


def statements(lines: Iterator[str]) -> Iterator[str]:
    """Yield the statements of an input, each once it is complete; the last one in any case."""
    from omnigraph.cli.shell.input import is_complete

    text = ""
    for line in lines:
        text += line
        if is_complete(text):
            yield text
            text = ""
    if text.strip():
        yield text


def _converse(session: Session, target: Target) -> None:
    with extra("shell", "the shell"):
        from omnigraph.cli.shell.prompt import Prompt, history_file

    render.out().line((f"{target.uri}; :help lists the commands, :quit leaves", "dim"))
    prompt = Prompt(history_file(environment.home(), target.uri), session.names)
    while not session.is_over:
        text = prompt.read(session.place)
        if text is None:
            return
        session.run(text)
