"""Taking over a graph of the original, broken anywhere: it reads the same, and the rest is done."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import pytest

from omnigraph.core.commits.records import MARK
from omnigraph.core.layout import MANIFEST
from omnigraph.store.root import Root
from tests.faults.harness import FAULTS
from tests.faults.whole_graphs import (
    Undertaking,
    Workshop,
    break_at,
    calls_of,
    objects_of,
    open_at,
    relocate_at,
    sample,
)
from tests.originals import EDGES, FEATURE, INIT, LATER, PEOPLE, make_original

ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
MAIN_NAMES, FEATURE_NAMES = ["Ada", "Bo", "Di"], ["Ada", "Bo", "Cy"]


def make_first(root: Root) -> None:
    make_at(root, 1)


def make_third(root: Root) -> None:
    make_at(root, 3)


def make_at(root: Root, version: int) -> None:
    """A graph of the original; on S3 its files are taken there as they are."""
    if root.is_local:
        make_original(root.local_path, version)
        return
    objects = objects_of(root)
    with TemporaryDirectory() as folder:
        made = Path(folder, "graph")
        make_original(made, version)
        for file in made.rglob("*"):
            if file.is_file():
                objects.put(file.relative_to(made).as_posix(), file.read_bytes())


def run(root: Root) -> None:
    """Take main over by opening, and the branch by a write to it."""
    with open_at(root) as graph:
        graph.mutate(ADD, {"n": "Ed"}, branch="feature", idempotency_key="one")


def judge_broken(root: Root) -> None:
    with open_at(root, "r") as graph:
        assert [row["name"] for row in graph.query(ALL)] == MAIN_NAMES
        assert str(graph.commits.list()[0].id) == LATER
        assert [row["name"] for row in graph.query(ALL, at=PEOPLE)] == ["Ada", "Bo"]


def judge_done(root: Root) -> None:
    judge_broken(root)
    for path in (MANIFEST, f"{MANIFEST}/tree/feature"):
        manifest = lance.dataset(root.join(path), storage_options=dict(root.storage_options))
        assert manifest.schema.metadata[MARK.encode()] == b"6"
    with open_at(root) as graph:
        # Rolling back the first try may be a commit of its own; everything else is there once.
        found = [commit for commit in graph.commits.list("feature") if commit.kind != "recovery"]
        assert [str(commit.id) for commit in found[1:]] == [FEATURE, EDGES, PEOPLE, INIT]
        assert found[0].idempotency_key == "one"
        names = [row["name"] for row in graph.query(ALL, branch="feature")]
        assert names == [*FEATURE_NAMES, "Ed"]
        graph.branches.merge("feature", "main")
        graph.recover()


def undertaking(name: str) -> Undertaking:
    make = make_first if name == "first" else make_third
    return Undertaking(
        name=f"migration-{name}",
        make=make,
        prepare=relocate_at,
        run=run,
        judge_broken=judge_broken,
        judge_done=judge_done,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_some_storage_calls(workshop: Workshop, fault: str) -> None:
    work = undertaking("first")
    break_at(workshop, work, FAULTS[fault], sample(calls_of(workshop, work), 4))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["first", "third"])
def test_broken_at_every_storage_call(workshop: Workshop, name: str, fault: str) -> None:
    work = undertaking(name)
    break_at(workshop, work, FAULTS[fault], calls_of(workshop, work))
