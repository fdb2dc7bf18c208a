"""Looking at all branches beside others: what they do meanwhile is no damage, and no mistake."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.runtime import failpoints

ADD = "query add($n: String) { insert Person { name: $n } }"


def insert(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate(ADD, {"n": name}, branch=branch)


def delete(graph: og.Graph, name: str) -> None:
    graph.branches.delete(name)


def rename(graph: og.Graph, name: str) -> None:
    graph.branches.rename(name, f"{name}-renamed")


def write(graph: og.Graph, name: str) -> None:
    insert(graph, name, name)


def verify(graph: og.Graph) -> None:
    found = graph.verify("rows", engine="inprocess")
    assert [each for each in found.findings if each.severity == "error"] == []


def repair(graph: og.Graph) -> None:
    found = graph.repair(dry_run=True)
    assert (found.tables, found.irreparable) == ((), ())


def log(graph: og.Graph) -> None:
    assert "main" in graph.commits.log()


@pytest.mark.parametrize(
    ("look", "act"),
    [(verify, delete), (verify, rename), (verify, write), (repair, delete), (log, delete)],
)
def test_what_others_do_at_any_moment_does_not_matter(
    tmp_path: Path, look: Callable[[og.Graph], None], act: Callable[[og.Graph, str], None]
) -> None:
    with og.init(tmp_path / "graph", "node Person { name: String @key }") as writer:
        insert(writer, "Ada")
        for passes in range(1, 400, 5):
            name = f"b{passes}"
            writer.branches.create(name)
            insert(writer, "Bo", name)
            left = [passes]  # the watcher stays, what it does is over after one time

            def meddle(_: object, name: str = name, left: list[int] = left) -> None:
                if left and (count := left.pop()):
                    if count > 1:
                        left.append(count - 1)
                    else:
                        act(writer, name)

            failpoints.watch(meddle)
            with og.open(tmp_path / "graph") as graph:
                look(graph)
            if left:
                left.clear()
                return  # there are no more passes
            if name in writer.branches.list():
                writer.branches.delete(name)
            elif act is rename:
                writer.branches.delete(f"{name}-renamed")
    raise AssertionError("it takes more passes than were tried")
