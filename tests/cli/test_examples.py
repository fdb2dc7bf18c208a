"""The example project keeps the rules it shows, and the demo runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import PEOPLE, ROOT, invoke

FILES = sorted(path.name for path in PEOPLE.iterdir())


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PEOPLE)


def test_the_files_are_these() -> None:
    assert FILES == ["mistakes.gq", "people.pg", "people_v2.pg", "queries.gq"]


@pytest.mark.parametrize("name", FILES)
def test_formatted(name: str) -> None:
    assert invoke("fmt", "--check", "--diff", name).stdout == ""


@pytest.mark.parametrize("schema", ["people.pg", "people_v2.pg"])
def test_schemas_are_clean(schema: str) -> None:
    answer = invoke("lint", "--schema", schema)
    assert answer.exit_code == 0
    assert answer.stdout.endswith(" 0 errors, 0 warnings\n")


def test_queries_are_clean() -> None:
    answer = invoke("lint", "--schema", "people.pg", "--query", "queries.gq")
    assert (answer.exit_code, answer.stdout) == (0, "12 queries, 0 errors, 0 warnings\n")


def test_the_mistakes_are_these() -> None:
    answer = invoke("lint", "--schema", "people.pg", "--query", "mistakes.gq")
    assert answer.exit_code == 1
    heads = [line for line in answer.stdout.splitlines() if line.startswith("mistakes.gq:")]
    codes = [line.partition("[")[2].partition("]")[0] for line in heads]
    assert codes == ["T2", "T7", "T3", "L203"]


def test_the_evolution_can_be_applied() -> None:
    arguments = ("schema", "plan", "--schema", "people_v2.pg", "--against", "people.pg")
    answer = invoke(*arguments)
    assert answer.exit_code == 0
    kinds = {line.split()[0] for line in answer.stdout.splitlines() if ":" in line}
    assert {"rename_type", "rename_property", "extend_enum", "change_type"} <= kinds


def test_the_demo_runs_and_is_plain_in_a_pipe(tmp_path: Path) -> None:
    variables = {"PATH": os.environ.get("PATH", ""), "TERM": "xterm-256color"}
    answer = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", "--people", "2000", "--without-spark"],
        cwd=tmp_path,
        env={**variables, "OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "\x1b" not in answer.stdout
    assert "3 queries, 3 errors, 1 warning" in answer.stdout
    assert "10 steps, can be applied" in answer.stdout
    assert "newcomers.jsonl:8191" in answer.stdout
    assert "it has the same entities: True" in answer.stdout


def test_the_small_example_runs(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, ROOT / "examples" / "graph.py"],
        cwd=tmp_path,
        env={"PATH": os.environ.get("PATH", ""), "OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
