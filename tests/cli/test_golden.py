"""The output of commands is what the files in `golden` say, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.golden import FOLDER, SESSION, played, write_files
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
