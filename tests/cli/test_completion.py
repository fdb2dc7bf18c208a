"""Completion in shells: from files of the cache, by a process that imports almost nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.cli.commands.completion import completion_table
from omnigraph.cli.completing import (
    ASKED,
    completions,
    remember,
    remember_places,
    words_of,
    write_table,
)
from omnigraph.cli.main import app
from tests.cli.support import SCHEMA, invoke, process


@pytest.fixture(scope="module")
def table() -> dict[str, object]:
    return completion_table(app)


@pytest.fixture
def cache(tmp_path: Path, table: dict[str, object]) -> Path:
    folder = tmp_path / "cache" / "names"
    write_table(folder, table)
    names = {"branch": ["main", "draft", "agent/42"], "tag": ["v1"], "type": ["Person", "Knows"]}
    remember(folder, "people.omni", names, are_all=True)
    remember(folder, "https://example.com/graphs/people", {"branch": ["far"]}, are_all=True)
    places = {"servers": {"prod": "https://example.com"}, "profiles": {"work": "people.omni"}}
    remember_places(folder, {**places, "default": "people.omni"})
    return folder


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("omnigraph br", ["branch"]),
        ("omnigraph branch me", ["merge"]),
        ("omnigraph query --for", ["--format"]),
        ("omnigraph query people.omni --format c", ["csv"]),
        ("omnigraph query people.omni --branch d", ["draft"]),
        ("omnigraph query --store people.omni -b m", ["main"]),
        ("omnigraph branch delete people.omni ag", ["agent/42"]),
        ("omnigraph branch delete --store people.omni ag", ["agent/42"]),
        ("omnigraph export people.omni --type P", ["Person"]),
        ("omnigraph query people.omni@dr", ["people.omni@draft"]),
        ("omnigraph query peo", ["people.omni", ":files"]),
        ("omnigraph query other.omni --branch ", []),
        ("omnigraph completion z", ["zsh"]),
        ("omnigraph query --format=j", ["--format=jsonl", "--format=json"]),
        ("omnigraph query people.omni --branch=d", ["--branch=draft"]),
        ("omnigraph query --store=people.omni -b m", ["main"]),
        ("omnigraph query --query=peo", [":files"]),
        ("omnigraph query --nothing=d", []),
        ("omnigraph diff people.omni v", ["v1"]),
        ("omnigraph query people.omni --at m", ["main"]),
        ("omnigraph query --profile wo", ["work"]),
        ("omnigraph query --server pr", ["prod"]),
        ("omnigraph query --profile work -b dr", ["draft"]),
        ("omnigraph query --server prod --graph people -b fa", ["far"]),
        ("omnigraph query --server=https://example.com --graph=people -b fa", ["far"]),
        ("omnigraph query -b dr", ["draft"]),
    ],
)
def test_words_fit_their_place(
    cache: Path, table: dict[str, object], line: str, expected: list[str]
) -> None:
    assert completions(words_of(line)[1:], table, cache) == expected


def test_commands_leave_names_for_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.pg").write_text(SCHEMA)
    home = {"OMNIGRAPH_HOME": str(tmp_path)}
    for words in (
        ("init", "--schema", "people.pg", "people.omni"),
        ("branch", "create", "people.omni", "draft"),
        ("completion", "bash"),
    ):
        assert invoke(*words, **home).exit_code == 0  # type: ignore[arg-type]
    for line, expected in (
        ("omnigraph query people.omni -b dr", "draft\n"),
        ("omnigraph export people.omni -t P", "Person\n"),
        ("omnigraph query people.omni@dr", "@draft\n"),
        ("omnigraph query people.omni --branch=dr", "draft\n"),
    ):
        answer = process(ASKED, "bash", line, "@=:", cwd=tmp_path, **home)  # type: ignore[arg-type]
        assert answer.stdout.decode() == expected, line
    assert invoke("branch", "delete", "people.omni", "draft", **home).exit_code == 0  # type: ignore[arg-type]
    answer = process(ASKED, "zsh", "omnigraph query people.omni -b dr", cwd=tmp_path, **home)  # type: ignore[arg-type]
    assert answer.stdout == b""


def test_bash_completes_a_line(cache: Path, tmp_path: Path) -> None:
    script = invoke("completion", "bash", OMNIGRAPH_HOME=str(tmp_path)).stdout
    asked = script + (
        'COMP_LINE="omnigraph query people.omni --branch dr"; COMP_POINT=${#COMP_LINE}\n'
        "COMP_WORDS=(omnigraph query people.omni --branch dr); COMP_CWORD=4\n"
        '_omnigraph; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    folder = Path(sys.executable).parent
    answer = subprocess.run(
        ["/bin/bash", "-c", asked],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert answer.stdout == "draft\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, tmp_path: Path) -> None:
    script = invoke("completion", shell, OMNIGRAPH_HOME=str(tmp_path))
    assert (script.exit_code, f"omnigraph {ASKED} {shell} " in script.stdout) == (0, True)
    assert json.loads((tmp_path / "cache" / "names" / "commands.json").read_text())["commands"]


def test_a_key_press_imports_next_to_nothing(cache: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['omnigraph', {ASKED!r}, 'bash', 'omnigraph query --br']\n"
        "from omnigraph.cli.entry import run\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert answer.stdout == "--branch\n"
    loaded = {name.partition(".")[0] for name in answer.stderr.split()}
    assert not loaded & {"typer", "rich", "yaml", "numpy", "pyarrow", "lance", "hashlib"}
