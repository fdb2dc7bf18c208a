"""Large merges run by tasks, with the result of small ones."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.exec import tuning
from omnigraph.exec.merge import merger
from omnigraph.exec.merge.conflicts import unsettled
from omnigraph.exec.merge.merger import Merger
from omnigraph.exec.merge.requests import MergeRequest
from omnigraph.exec.merge.tasks import MergeWork
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.types import MAIN, BranchName
from tests.faults.loads import Elsewhere
from tests.large_merges import BY_TASKS, check_agreement, made


def test_tasks_merge_what_one_process_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = MergeWork.start

    def noted(self: MergeWork, size: int) -> None:
        started.append(size)
        start(self, size)

    monkeypatch.setattr(MergeWork, "start", noted)
    with made(tmp_path / "g.omni") as graph:
        check_agreement(graph)
    assert started
    assert all(started), "the size of a large merge is told, so that an engine is chosen by it"


def altered(folder: Path) -> og.Graph:
    """A graph whose branch `draft` has one more property, and other rows than `main`."""
    schema = "node Item { name: String @key  a: I64? }"
    graph = og.init(str(folder), schema=schema)
    graph.load({"Item": [{"name": f"k{number}", "a": number} for number in range(300)]})
    graph.branches.create("draft")
    graph.schema.apply("node Item { name: String @key  a: I64?  c: String? }", branch="draft")
    rows = [{"name": f"k{number}", "c": f"c{number}"} for number in range(0, 400, 2)]
    graph.load({"Item": rows}, mode="merge", branch="draft")
    graph.load(
        {"Item": [{"name": f"k{number}", "a": -number} for number in range(9)]}, mode="merge"
    )
    return graph


def test_tasks_merge_across_a_schema_change(tmp_path: Path) -> None:
    with altered(tmp_path / "g.omni") as graph:
        for name in ("held", "tasks"):
            graph.branches.create(name)
        held = graph.branches.merge("draft", into="held")
        with tuning.tuned(**BY_TASKS):
            done = graph.branches.merge("draft", into="tasks")
        assert done.counts == held.counts
        assert graph.diff("held", "tasks").is_empty


def test_rows_beyond_the_bound_are_refused_across_a_schema_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "MutationLimits", lambda: MutationLimits(bytes=1_000))
    with altered(tmp_path / "g.omni") as graph, tuning.tuned(**BY_TASKS):
        head = graph.snapshot().commit
        with pytest.raises(og.errors.LimitExceeded, match="the bound is 1000"):
            graph.branches.merge("draft")
        assert graph.snapshot().commit == head


class Counting(Elsewhere):
    """Counts what is sent at once."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def run(
        self, stage: str, task: Callable[[Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        self.sent.append((stage, len(items)))
        return super().run(stage, task, items)


def test_other_processes_are_sent_a_bounded_number_of_ids_at_once(tmp_path: Path) -> None:
    runner = Counting()
    with altered(tmp_path / "g.omni") as graph:
        graph.branches.create("other")
        held = graph.branches.merge("draft", dry_run=True)
        request = MergeRequest(source=BranchName("draft"), into=MAIN, resolve=unsettled)
        with tuning.tuned(**{**BY_TASKS, "merge_task_rows": 10, "merge_sent_rows": 30}):
            done = Merger(graph._repo, running=lambda _: nullcontext(runner)).merge(request)
        assert {key: each.total for key, each in done.counts.items()} == {
            key: each.total for key, each in held.counts.items()
        }
        graph.branches.merge("draft", into="other")
        assert graph.diff("main", "other").is_empty
    stages = {stage for stage, _ in runner.sent}
    assert stages == {"compare", "merge"}, "across a schema change rows are written here"
    assert max(count for _, count in runner.sent) == 3
    assert sum(count for stage, count in runner.sent if stage == "compare") > 3
