"""Copying, broken anywhere: the target is no graph, or all of it; and it is gone on with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.layout import COPY_MARK
from omnigraph.errors import Code, Conflict, NotFound
from omnigraph.runtime.settings import Settings
from tests.faults.harness import FAULTS, Lab
from tests.faults.test_relocation import ADD, ALL, EXPECTED, SCHEMA, make
from tests.faults.whole_graphs import Undertaking, break_at, calls_of, sample

ONE_TASK = Settings(load_concurrency=1)  # storage calls come in the same order every time


def make_two(path: Path) -> None:
    path.mkdir()
    make(path / "home")


def run(path: Path) -> None:
    og.relocate(path / "home")
    with og.open(path / "home", settings=ONE_TASK) as graph:
        try:
            graph.copy_to(path / "copy")
        except Conflict as refusal:
            # The reply of the last step was lost, and so was that of looking again.
            if refusal.code is not Code.GRAPH_EXISTS:
                raise


def judge_broken(path: Path) -> None:
    if (path / "copy" / COPY_MARK).exists():
        with pytest.raises(Conflict) as caught:
            og.open(path / "copy", "r")
        assert caught.value.code is Code.COPY_UNFINISHED
        with pytest.raises(Conflict) as caught:
            og.init(path / "copy", SCHEMA)
        assert caught.value.code is Code.COPY_UNFINISHED
    else:
        with suppress(NotFound):
            judge_copy(path / "copy")


def judge_copy(path: Path) -> None:
    with og.open(path, "r") as graph:
        for branch, expected in EXPECTED.items():
            assert [row["name"] for row in graph.query(ALL, branch=branch)] == expected


def judge_done(path: Path) -> None:
    judge_copy(path / "copy")
    assert og.relocate(path / "copy", dry_run=True).changed == 0
    with og.open(path / "copy") as graph:
        graph.mutate(ADD, {"n": "Di"}, branch="dev2")
        graph.branches.merge("dev2", "main")
        assert len(graph.query(ALL).to_pylist()) == 4
    judge_copy(path / "home")


COPY = Undertaking(
    name="copy", make=make_two, run=run, judge_broken=judge_broken, judge_done=judge_done
)


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_some_storage_calls(lab: Lab, fault: str) -> None:
    break_at(lab, COPY, FAULTS[fault], sample(calls_of(lab, COPY), 4))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_every_storage_call(lab: Lab, fault: str) -> None:
    break_at(lab, COPY, FAULTS[fault], calls_of(lab, COPY))
