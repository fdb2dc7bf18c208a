"""The examples in docstrings are run, each on a small graph of its own."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph.algorithms.calls import Algorithms
from omnigraph.graph.versioning.branches import Branches
from omnigraph.graph.versioning.changes import ChangeFeed
from omnigraph.graph.versioning.commits import Commits

SCHEMA = """
node Person { name: String @key  age: I32? }
node File { path: String @key  content: Blob? }
edge Knows: Person -> Person
"""
FILL = """
query fill() {
  insert Person { name: "Ada", age: 36 }
  insert Person { name: "Bo" }
  insert Knows { from: "Ada", to: "Bo" }
}
"""
BLOCK = re.compile(r"```python\n(.*?)\n\s*```", re.DOTALL)
# What must have an example: the calls that a newcomer makes.
SHOWN = {
    "open",
    "init",
    "Algorithms",
    "Algorithms.connected_components",
    "Algorithms.label_propagation",
    "Algorithms.pagerank",
    "Algorithms.shortest_paths",
    "Algorithms.triangle_counts",
    "Graph",
    "Graph.query",
    "Graph.explain",
    "Graph.profile",
    "Graph.snapshot",
    "Graph.mutate",
    "Graph.read_blob",
    "Graph.embed",
    "Graph.ensure_indices",
    "Graph.export",
    "Graph.load",
    "Graph.optimize",
    "Graph.recover",
    "Branches.create",
    "Branches.list",
    "Branches.delete",
    "Commits.list",
    "Commits.show",
    "Rows",
    "Snapshot",
}


def documented() -> dict[str, str]:
    found = {name: inspect.getdoc(getattr(og, name)) or "" for name in ("init", "open")}
    kinds = (og.Graph, og.Rows, og.Snapshot, og.Diff, og.MergeResult)
    for kind in (*kinds, Algorithms, Branches, ChangeFeed, Commits):
        found[kind.__name__] = inspect.getdoc(kind) or ""
        for name, member in inspect.getmembers(kind):
            if inspect.isfunction(member) and not name.startswith("_"):
                found[f"{kind.__name__}.{name}"] = inspect.getdoc(member) or ""
    return found


EXAMPLES = {name: blocks for name, text in documented().items() if (blocks := BLOCK.findall(text))}


def test_what_newcomers_call_has_an_example() -> None:
    assert set(EXAMPLES) >= SHOWN


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with og.init("people.omni", SCHEMA) as graph:
        graph.mutate(FILL)
        for block in EXAMPLES[name]:
            exec(compile(textwrap.dedent(block), f"<{name}>", "exec"), {"og": og, "graph": graph})
