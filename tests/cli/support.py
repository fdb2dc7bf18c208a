"""Calling the command line from tests: in this process, or as a user does."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from unittest import mock

from omnigraph.cli.main import app

ROOT = Path(__file__).parents[2]
PEOPLE = ROOT / "examples" / "people"
# Modules that few commands need, and that take as long to import as the rest of a help text.
LATE = {"configparser", "csv", "difflib", "importlib.resources", "shutil", "tempfile"}

SCHEMA = dedent("""\
    node Person {
      name: String @key
      born: Date?
    }

    edge Knows: Person -> Person
    """)
QUERY = dedent("""\
    query friends($name: String) {
      match {
        $me: Person { name: $name }
        $me knows $friend
      }
      return { $friend.name as name }
    }
    """)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(*arguments: str | Path, stdin: bytes = b"", **env: str) -> Answer:
    """Run a command in this process; its output goes to no terminal."""
    out, err = io.BytesIO(), io.BytesIO()
    status: object = 0
    with _streams(stdin, out, err), _environment(env):
        try:
            app([str(item) for item in arguments])
        except SystemExit as leaving:
            status = leaving.code
        sys.stdout.flush()
        sys.stderr.flush()
    assert isinstance(status, int)
    return Answer(status, out.getvalue(), err.getvalue().decode())


@contextmanager
def _streams(stdin: bytes, out: io.BytesIO, err: io.BytesIO) -> Iterator[None]:
    given, printed, said = (
        io.TextIOWrapper(each, "utf-8") for each in (io.BytesIO(stdin), out, err)
    )
    with mock.patch.multiple(sys, stdin=given, stdout=printed, stderr=said):
        try:
            yield
        finally:
            for stream in (given, printed, said):
                stream.detach()


@contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    quiet = ("NO_COLOR", "FORCE_COLOR", "OMNIGRAPH_DEBUG", "OMNIGRAPH_PROFILE")
    with mock.patch.dict(os.environ, env):
        for name in quiet:
            if name not in env:
                os.environ.pop(name, None)
        yield


def program() -> Path:
    """The installed command."""
    return Path(sys.executable).with_name("omnigraph")


def process(
    *arguments: str | Path, cwd: Path, stdin: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command in a process of its own, with a bare environment."""
    return subprocess.run(
        [program(), *arguments],
        cwd=cwd,
        input=stdin,
        env={"PATH": os.environ.get("PATH", ""), "COLUMNS": "80", **env},
        capture_output=True,
        check=False,
        timeout=120,
    )
