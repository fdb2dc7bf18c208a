"""Calling the command line from tests: in this process, or as a user does."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from typer.testing import CliRunner, Result

from omnigraph.cli.main import app

ROOT = Path(__file__).parents[2]
PEOPLE = ROOT / "examples" / "people"

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


def invoke(*arguments: str | Path, stdin: bytes = b"", **env: str) -> Result:
    """Run a command in this process; its output goes to no terminal."""
    quiet = {
        "NO_COLOR": None,
        "FORCE_COLOR": None,
        "OMNIGRAPH_DEBUG": None,
        "OMNIGRAPH_PROFILE": None,
    }
    return CliRunner().invoke(
        app, [str(item) for item in arguments], input=stdin, env={**quiet, **env}
    )


def process(
    *arguments: str | Path, cwd: Path, stdin: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command in a process of its own, with a bare environment."""
    command = Path(sys.executable).with_name("omnigraph")
    return subprocess.run(
        [command, *arguments],
        cwd=cwd,
        input=stdin,
        env={"PATH": os.environ.get("PATH", ""), "COLUMNS": "80", **env},
        capture_output=True,
        check=False,
        timeout=120,
    )
