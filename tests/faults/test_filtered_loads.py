"""A process that dies in the second commit of a large load: the rows are there, filtered or not."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Plan
from omnigraph.store import tuning
from tests.faults.harness import children

COUNT = 300
SCHEMA = "node Person { name: String @key }"
ASK = "query q() { match { $p: Person } return { count($p) as n } }"
SMALL_IS_LARGE = {"filtered_rows_min": COUNT, "filtered_load_rows_min": 20}


def rows(start: int) -> dict[str, list[dict[str, str]]]:
    return {"Person": [{"name": f"p{number}"} for number in range(start, start + COUNT)]}


def load_and_die(path: Path, plan: Plan) -> None:
    with tuning.tuned(**SMALL_IS_LARGE):
        graph = og.open(path)
        failpoints.arm(plan)
        graph.load(rows(0))


# The first pass of each is of the rows, the second of the index.
@pytest.mark.parametrize(
    ("point", "nth"), [(Fp.FORGET, 1), (Fp.ARMED, 2), (Fp.LANDED, 2), (Fp.PUBLISHED, 2)]
)
def test_the_rows_of_a_load_outlive_a_crash_in_the_commit_of_its_index(
    tmp_path: Path, point: Fp, nth: int
) -> None:
    path = tmp_path / "g.omni"
    og.init(path, schema=SCHEMA).close()
    child = children.Process(
        target=load_and_die, args=(path, Plan(faults=((point, Crash()),), nth=nth))
    )
    child.start()
    child.join()
    assert child.exitcode == CRASH_STATUS
    with tuning.tuned(**SMALL_IS_LARGE), og.open(path) as graph:
        assert graph.query(ASK).to_pylist() == [{"n": COUNT}]
        graph.recover()
        graph.load(rows(COUNT))
        assert graph.query(ASK).to_pylist() == [{"n": 2 * COUNT}]
        found = graph.verify("rows", engine="inprocess").findings
        assert [each for each in found if each.severity == "error"] == []
        kinds = [commit.kind for commit in graph.commits.list()]
        assert kinds.count("load") == 2
        assert "ensure_indices" in kinds
