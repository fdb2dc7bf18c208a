"""The documentation is run: its code, its schemas, its queries, its sessions and its links.

Fences and what they promise:

    python         runs in a namespace of its own
    pg             compiles; ``pg,fails`` must be refused
    gq             compiles against the last ``pg`` block above it; ``gq,fails`` must be refused
    console,run    each ``$ omnigraph`` line runs and prints what follows it, where ``…`` stands for
                   anything; with ``fails`` the command must also report failure by its status. A
                   session that starts a server in the background runs in one shell

A flag ``file=NAME`` on any block also writes its text to that file, for the sessions of the page.
"""

import fcntl
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from omnigraph import lang
from omnigraph.errors import InvalidInput
from tests.guards.markdown import ROOT, Block, Page, pages, read

PAGES = [read(path) for path in pages()]
KNOWN = {"", "console", "gq", "json", "jsonl", "make", "mermaid", "pg", "python", "text", "toml"}
FLAGS = {"fails", "run"}
SESSION_SECONDS_MAX = 120
END = "--the-end-of-a-command--"

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.path.relative_to(ROOT).as_posix()
)


def file_of(block: Block) -> str | None:
    return next((flag.removeprefix("file=") for flag in block.flags if "=" in flag), None)


@every_page
def test_fences_are_known(page: Page) -> None:
    """A mistyped fence would be a promise that nobody checks."""
    for block in page.blocks:
        assert block.language in KNOWN, block
        assert all(flag in FLAGS or flag.startswith("file=") for flag in block.flags), block
        assert "fails" not in block.flags or block.language in {"pg", "gq", "console"}, block


@every_page
def test_python_blocks_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in page.blocks:
        if block.language == "python":
            exec(compile(block.padded, str(block), "exec"), {"__name__": "docs"})


@every_page
def test_schemas_and_queries_compile(page: Page) -> None:
    schema: Block | None = None
    for block in page.blocks:
        if block.language == "pg" and "fails" not in block.flags:
            schema = block
        if block.language in {"pg", "gq"}:
            compile_block(block, schema)


def compile_block(block: Block, schema: Block | None) -> None:
    def run() -> None:
        if block.language == "pg":
            lang.compile_schema(block.text, str(block))
        else:
            assert schema is not None, f"{block}: no schema above this query"
            catalog = lang.compile_schema(schema.text, str(schema))
            lang.compile_queries(block.text, catalog, str(block))

    if "fails" not in block.flags:
        run()
        return
    try:
        run()
    except InvalidInput:
        return
    pytest.fail(f"{block}: compiles, and should not")


@every_page
def test_sessions_print_what_they_show(page: Page, tmp_path: Path) -> None:
    for block in page.blocks:
        if name := file_of(block):
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        if "run" in block.flags:
            steps = session(block)
            in_shell = any(command.endswith("&") for command, _ in steps)
            answers = run_session([command for command, _ in steps], tmp_path) if in_shell else None
            for number, (command, shown) in enumerate(steps):
                status, printed = answers[number] if answers else run_command(command, tmp_path)
                assert is_shown(printed, shown), f"{block}: {command}: {printed}"
                assert (status != 0) == ("fails" in block.flags), f"{block}: {command}: {status}"


def is_shown(printed: list[str], shown: list[str]) -> bool:
    """Compare output with a page, on which `…` stands for what differs each time."""
    pattern = re.escape("\n".join(shown)).replace("…", r"[^\n]+")
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def session(block: Block) -> list[tuple[str, list[str]]]:
    """Split a session into commands and what each is shown to print."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            assert steps, f"{block}: output before the first command"
            steps[-1][1].append(line.rstrip())
    return [(command, trimmed(lines)) for command, lines in steps]


def run_command(command: str, folder: Path) -> tuple[int, list[str]]:
    program, *arguments = shlex.split(command)
    assert program == "omnigraph", f"only omnigraph itself is run, not {program}"
    answer = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=folder,
        # A plain terminal of fixed width, and nobody's own settings.
        env={
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PYTHONIOENCODING": "utf-8",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=SESSION_SECONDS_MAX,
        check=False,
    )
    return answer.returncode, trimmed([line.rstrip() for line in answer.stdout.splitlines()])


def run_session(commands: list[str], folder: Path) -> list[tuple[int, list[str]]]:
    """Run commands in one shell, as somebody types them; the status and the output of each.

    Ports are those of the page, so sessions of this machine run one at a time.
    """
    script = "set -m\n" + "".join(
        f"{command}\nprintf '%s %s\\n' {END} $?\n" for command in commands
    )
    lock = Path(tempfile.gettempdir()) / "omnigraph-docs.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = subprocess.run(
            ["bash", "-c", f"{script}wait"],
            cwd=folder,
            env={
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
                "HOME": str(folder),
                "NO_COLOR": "1",
                "TERM": "dumb",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SESSION_SECONDS_MAX,
            check=False,
        )
    found: list[tuple[int, list[str]]] = []
    lines: list[str] = []
    for line in answer.stdout.splitlines():
        before, mark, status = line.partition(f"{END} ")
        lines += [before.rstrip()] if before or not mark else []
        if mark:
            found.append((int(status), trimmed(lines)))
            lines = []
    assert len(found) == len(commands), answer.stdout
    return found


def trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


@every_page
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (page.path.parent / parts.path).resolve() if parts.path else page.path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if parts.fragment:
            assert parts.fragment in read(target).anchors, link


def test_every_page_is_in_the_index() -> None:
    """A page that nothing leads to is a page that nobody reads."""
    linked = {
        (page.path.parent / urlsplit(link).path).resolve()
        for page in PAGES
        for link in page.links
        if not urlsplit(link).scheme
    }
    starts = {ROOT / "README.md"}
    assert {page.path for page in PAGES} - starts <= linked
