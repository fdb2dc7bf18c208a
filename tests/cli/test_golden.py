"""The output of commands is what the files in `golden` say, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.cli.lazy import LazyGroup
from omnigraph.cli.main import app
from tests.cli.golden import APART, FOLDER, SESSION, played, write_files
from tests.cli.support import invoke


def test_a_session_prints_what_its_files_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    for name, text in played("people.omni"):
        assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), name
    assert {path.stem for path in FOLDER.iterdir()} == set(SESSION)


def names(group: LazyGroup, path: str = "") -> Iterator[str]:
    """The commands that work on a graph."""
    for name in group.list_commands():
        command, entry = group.get_command(name), group.entries.get(name)
        if isinstance(command, LazyGroup):
            yield from names(command, f"{path}{name} ")
            continue
        takes_graph = any("GRAPH" in each.metavar for each in command.params if not each.is_option)
        if takes_graph and entry is not None and not entry.hidden:
            yield f"{path}{name}"


def test_every_command_on_a_graph_is_in_the_session() -> None:
    said = {" ".join(words) for commands in SESSION.values() for words in commands}
    missing = {name for name in names(app) if not any(text.startswith(f"{name} ") for text in said)}
    assert missing == APART
