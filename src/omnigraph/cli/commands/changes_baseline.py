"""`omnigraph changes baseline`: all entities of a branch, and the cursor of its feed."""

import json
import sys
from pathlib import Path
from typing import Annotated

from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Types
from omnigraph.cli.parameters import Option
from omnigraph.cli.records import change_record
from omnigraph.cli.targets import Target


@command(
    "omnigraph changes baseline people.omni > state.jsonl",
    "omnigraph changes baseline people.omni --type Person --out state.jsonl",
    branch=True,
)
def changes_baseline(
    target: Target,
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="FILE", help="A file, not the output.")
    ] = None,
    types: Types = None,
) -> Status:
    """Print every entity of a branch as a JSON line, and last the cursor of its change feed."""
    with target.open("r") as graph:
        state = graph.changes.baseline(branch=target.on, types=types)
        file = sys.stdout if out is None else out.open("w", encoding="utf-8")
        try:
            for change in state:
                file.write(json.dumps(change_record(change), ensure_ascii=False) + "\n")
            last = {"snapshot_commit_id": state.commit, "resume_cursor": state.cursor}
            file.write(json.dumps(last) + "\n")
        finally:
            if out is not None:
                file.close()
    return Status.OK
