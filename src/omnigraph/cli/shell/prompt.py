"""The shell on a terminal: history, editing and completion. It imports prompt_toolkit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from omnigraph.cli.shell.input import is_complete
from omnigraph.cli.shell.names import ShellNames, completions


class Prompt:
    """Reads statements from a terminal."""

    def __init__(self, history: Path, names: Callable[[], ShellNames]) -> None:
        """Keep what is typed in a file, and complete the names that a function knows."""
        self._session: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)),
            completer=_NameCompleter(names),
            complete_while_typing=False,
            key_bindings=_keys(),
            multiline=True,
            prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
            enable_open_in_editor=True,
        )

    def read(self, place: str) -> str | None:
        """One statement; None at the end of the input, and nothing for a line that was dropped."""
        try:
            return self._session.prompt(f"{place}> ")
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


def history_file(folder: Path, graph: str) -> Path:
    """The file of what was typed for a graph, which only its owner may read."""
    folder = folder / "shell"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(graph.encode()).hexdigest()[:16]}.history"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    # What a statement is not complete for can still be sent, and a complete one be continued.
    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class _NameCompleter(Completer):
    """Offers the names that fit before the cursor."""

    def __init__(self, names: Callable[[], ShellNames]) -> None:
        self._names = names

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Any]:
        """Yield the completions for the text before the cursor."""
        word, found = completions(document.text_before_cursor, self._names())
        for name in found:
            yield Completion(name, start_position=-len(word))
