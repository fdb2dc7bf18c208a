"""Large merges run by tasks, with the result of small ones."""

from pathlib import Path

import pytest

from omnigraph.exec.merge.tasks import MergeWork
from tests.large_merges import check_agreement, made


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
