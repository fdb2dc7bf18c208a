"""Arguments of calls that mean something in reach of a graph only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.errors import Code, InvalidInput


def only_local(given: Mapping[str, Any]) -> None:
    """Refuse arguments that mean something in reach of the graph only.

    Raises:
        InvalidInput: There is one that says more than its default.
    """
    neutral: tuple[object, ...] = (None, "auto", False, 1000)
    for name, value in given.items():
        # Whoever listens to progress hears nothing of a server, and loses nothing.
        if name != "progress" and value not in neutral:
            text = f"`{name}` is for a graph in reach, not for one behind a server"
            raise InvalidInput(Code.INPUT_INVALID, text, argument=name)
