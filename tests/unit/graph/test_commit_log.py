"""The history of branches as a graph of lines."""

from pathlib import Path

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }"


def add(graph: og.Graph, name: str, branch: str) -> None:
    text = f'query q() {{ insert Person {{ name: "{name}" }} }}'
    graph.mutate(text, branch=branch, message=f"add {name}\nand more")


def picture(graph: og.Graph, **terms: object) -> list[str]:
    """The drawing, with the message of each commit in the place of its id and kind."""
    lines = []
    for line in graph.commits.log(**terms).splitlines():  # type: ignore[arg-type]
        marks, _, rest = line.partition("  ")
        heads = rest[rest.index("(") : rest.index(")") + 1] if "(" in rest else ""
        lines.append(f"{marks} {heads}{rest.rpartition(': ')[2] if ': ' in rest else ''}".rstrip())
    return lines


def test_merges_and_branches_are_lanes(tmp_path: Path) -> None:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        add(graph, "a", "main")
        graph.branches.create("draft")
        add(graph, "b", "draft")
        add(graph, "c", "main")
        graph.branches.merge("draft", message="together")
        add(graph, "d", "draft")
        assert picture(graph) == [
            "* (main)together",
            "|\\",
            "* | add c",
            "| * add b",
            "|/",
            "* add a",
            "*",
        ]
        assert picture(graph, limit=2) == ["* (main)together", "* add c"]
        graph.branches.merge("draft", delete_branch=True)
        lines = graph.commits.log(limit=3).splitlines()
        assert ("(main) branch_merge" in lines[0], lines[1]) == (True, "|\\")
        assert lines[2].endswith("of a deleted branch")
