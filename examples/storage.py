"""A commit, a crash and a recovery, below the languages. Part of `make demo`; runs by itself too.

A child process dies between moving the tables and making them visible. Nobody sees half a change:
the next opening finds what the child noted down and finishes the write for it.
"""

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.lang import compile_schema
from omnigraph.runtime import failpoints
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName

SCHEMA = """
node Person { name: String @key }
node Company { name: String @key }
edge WorksAt: Person -> Company
"""


def main() -> None:
    """Show one thing after the other."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        show(Path(folder) / "people.omni")


def show(folder: Path) -> None:
    root = Root.parse(str(folder))
    schema = AcceptedSchema(catalog=compile_schema(SCHEMA), text=SCHEMA)
    repo = Repository.init(root, schema, components(root))
    first = hire(repo, "Ada", "Analytical Engines", actor="demo")
    print(f"Three tables, one commit: {first.commit.id} by {first.commit.actor}")
    print(f"  {counts(repo.snapshot())}")

    repo.branches.create(BranchName("agent/42"))
    hire(repo, "Bo", "Looms", branch=BranchName("agent/42"))
    print("A branch has its own: agent/42 and main")
    print(f"  {counts(repo.snapshot(BranchName('agent/42')))}")
    print(f"  {counts(repo.snapshot())}")

    print("A child process dies after moving all tables, before anybody could see it:")
    child = subprocess.run([sys.executable, __file__, "--crash", str(folder)], check=False)
    reader = Repository.open(root, components(root), OpenMode.READ_ONLY)
    left = [intent.operation_id for intent in reader.intents.pending()]
    print(f"  it ended with status {child.returncode} and left the intent {left[0]}")
    print(f"  a reader sees {counts(reader.snapshot())}")

    print("Opening the graph for writing settles it:")
    repo = Repository.open(root, components(root))
    row = repo.recovery.audit.rows()[-1]
    print(f"  {row.recovery_kind} for {row.recovery_for_actor}, commit {row.graph_commit_id}")
    print(f"  {counts(repo.snapshot())}")
    print("History, newest first:")
    for commit in repo.commits():
        print(f"  {commit.id} {commit.kind:<9} {commit.actor or '-'}")
    old = repo.snapshot_at(first.commit.id)
    print(f"The state of the first commit is still there: {counts(old)}")


def hire(
    repo: Repository,
    person: str,
    company: str,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
) -> Published:
    """One person, one company and the edge between them, as one write."""
    base = repo.snapshot(branch)
    rows = {
        "node:Person": {"id": person, "name": person},
        "node:Company": {"id": company, "name": company},
        "edge:WorksAt": {"id": repo.ids.new(), "src": person, "dst": company},
    }
    writes = []
    for key, row in rows.items():
        table = repo.writable_table(base, key)
        content = pa.Table.from_pylist([row], schema=table.schema)
        staged = repo.tables.stage(table, inserts=content, uuid=repo.ids.new())
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    commit = replace(repo.new_commit(base, WriterKind.MUTATION), actor=actor)
    return repo.commit(Prepared(base=base, commit=commit, tables=tuple(writes)))


def counts(snapshot: GraphVersion) -> str:
    found = sorted(snapshot.tables.values(), key=lambda pin: pin.table_key)
    return ", ".join(f"{pin.table_key} {pin.row_count}" for pin in found)


def crash(folder: Path) -> None:
    """What the child does: a write that ends the process in its most awkward moment."""
    root = Root.parse(str(folder))
    repo = Repository.open(root, components(root))
    with failpoints.armed({Fp.LANDED: failpoints.Crash()}):
        hire(repo, "Cy", "Lighthouses", actor="doomed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--crash"]:
        crash(Path(sys.argv[2]))
    else:
        main()
