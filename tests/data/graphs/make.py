"""Write the sample graph of the format that the installed release makes.

    python -m tests.data.graphs.make

Run once per format, with the release that introduced it, and commit the archive beside this file.
An archive is never made anew: `test_stored_graphs.py` shows that every later release opens it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.core.commits.records import FORMAT_VERSION

HERE = Path(__file__).parent

SCHEMA = """
node Person {
  name: String @key
  born: Date?
  tags: [String]?
  big: U64?
  place: Vector(2)?
  picture: Blob?
  @unique(big)
}
node Note { title: String  body: String @index }
edge Knows: Person -> Person { since: DateTime?  @key(src, dst) }
edge Wrote: Person -> Note @card(0..2)
"""

FILL = """
query fill() {
  insert Person {
    name: "Ada", born: date("1815-12-10"), tags: ["a", "b"], big: 18446744073709551615,
    place: [1.0, 0.0]
  }
  insert Person { name: "Bo", tags: [], picture: "base64:aGVsbG8=" }
  insert Person { name: "Cy" }
  insert Knows { from: "Ada", to: "Bo", since: datetime("2024-05-01T12:00:00Z") }
}
"""

STEPS = (
    'query rename() { update Person set { born: date("1900-01-01") } where name = "Bo" }',
    'query gone() { delete Person where name = "Cy" }',
    """
query more() {
  insert Person { name: "Di", place: [0.0, 1.0] }
  insert Knows { from: "Di", to: "Ada" }
}
""",
)


def fill(graph: og.Graph) -> str:
    """Give the graph a history of writes of every kind; return a commit in the past."""
    first = graph.mutate(FILL, actor="sample", idempotency_key="fill").commit
    assert first is not None
    for text in STEPS:
        graph.mutate(text)
    lines = [
        {"type": "Note", "data": {"id": "n1", "title": "engine", "body": "weaves patterns"}},
        {"edge": "Wrote", "from": "Ada", "to": "n1"},
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        graph.load(file.name)
    graph.branches.create("draft")
    graph.mutate('query add() { insert Person { name: "Ed" } }', branch="draft")
    graph.ensure_indices()
    return str(first.id)


def main() -> int:
    """Write the archive and what a reader must find in it."""
    name = f"format-{FORMAT_VERSION}"
    target = HERE / f"{name}.tar.xz"
    if target.exists():
        print(f"{target.name} is there already", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.omni"
        with og.init(str(path), schema=SCHEMA) as graph:
            expected: dict[str, Any] = {"first": fill(graph)}
            expected["head"] = str(graph.commits.list("main")[0].id)
            expected["commits"] = len(graph.commits.list("main"))
        with tarfile.open(target, "w:xz") as archive:
            archive.add(path, "sample.omni")
    (HERE / f"{name}.json").write_text(json.dumps(expected, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
