"""Copying, broken anywhere: the target is no graph, or all of it; and it is gone on with."""

from __future__ import annotations

from contextlib import suppress

import pytest

from omnigraph.core.layout import COPY_MARK
from omnigraph.errors import Code, Conflict, NotFound
from omnigraph.runtime.settings import Settings
from omnigraph.store.root import Root
from tests.faults.harness import FAULTS
from tests.faults.test_relocation import ADD, ALL, EXPECTED, SCHEMA, make
from tests.faults.whole_graphs import (
    Undertaking,
    Workshop,
    below,
    break_at,
    calls_of,
    init_at,
    objects_of,
    open_at,
    relocate_at,
    sample,
)

ONE_TASK = Settings(load_concurrency=1)  # storage calls come in the same order every time


def home(root: Root) -> Root:
    return below(root, "home")


def copy(root: Root) -> Root:
    return below(root, "copy")


def make_home(root: Root) -> None:
    make(home(root))


def prepare(root: Root) -> None:
    relocate_at(home(root))


def run(root: Root) -> None:
    with open_at(home(root), settings=ONE_TASK) as graph:
        try:
            graph.copy_to(copy(root).uri, storage_options=dict(root.storage_options))
        except Conflict as refusal:
            # The reply of the last step was lost, and so was that of looking again.
            if refusal.code is not Code.GRAPH_EXISTS:
                raise


def judge_broken(root: Root) -> None:
    if objects_of(copy(root)).exists(COPY_MARK):
        with pytest.raises(Conflict) as caught:
            open_at(copy(root), "r")
        assert caught.value.code is Code.COPY_UNFINISHED
        with pytest.raises(Conflict) as caught:
            init_at(copy(root), SCHEMA)
        assert caught.value.code is Code.COPY_UNFINISHED
    else:
        with suppress(NotFound):
            judge_copy(copy(root))


def judge_copy(root: Root) -> None:
    with open_at(root, "r") as graph:
        for branch, expected in EXPECTED.items():
            assert [row["name"] for row in graph.query(ALL, branch=branch)] == expected


def judge_done(root: Root) -> None:
    judge_copy(copy(root))
    assert relocate_at(copy(root), dry_run=True).changed == 0
    with open_at(copy(root)) as graph:
        graph.mutate(ADD, {"n": "Di"}, branch="dev2")
        graph.branches.merge("dev2", "main")
        assert len(graph.query(ALL).to_pylist()) == 4
    judge_copy(home(root))


COPY = Undertaking(
    name="copy",
    make=make_home,
    prepare=prepare,
    run=run,
    judge_broken=judge_broken,
    judge_done=judge_done,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_some_storage_calls(workshop: Workshop, fault: str) -> None:
    break_at(workshop, COPY, FAULTS[fault], sample(calls_of(workshop, COPY), 4))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
def test_broken_at_every_storage_call(workshop: Workshop, fault: str) -> None:
    break_at(workshop, COPY, FAULTS[fault], calls_of(workshop, COPY))
