"""Where keys are judged, in this process or elsewhere, makes no difference to what is found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omnigraph.dataplane.load import stages
from omnigraph.dataplane.run.runner import Item, Result
from tests.unit.dataplane.load.support import PicklingRunner, edge, lab_at, person

FIRST = [person("a"), person("b"), edge("Knows", "a", "b")]
CHANGED = [person("a", age=2), person("c"), edge("Knows", "c", "a")]
FAULTY = [person("d"), edge("Knows", "d", "nobody"), person("d"), edge("Knows", "e", "d")]


class Watched(PicklingRunner):
    """Remembers the stages that were sent to it."""

    def __init__(self) -> None:
        self.stages: set[str] = set()

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        self.stages.add(stage)
        return super().run(stage, task, items)


@pytest.mark.parametrize("here", [True, False], ids=["here", "elsewhere"])
def test_the_same_graph_and_the_same_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    expected, lab = lab_at(tmp_path / "expected"), lab_at(tmp_path / "lab")
    terms: dict[str, Any] = {"split_bytes": 60, "partitions": 4}
    monkeypatch.setattr(stages, "_FEW_KEYS", 0)  # as if there were many
    if not here:
        monkeypatch.setattr(stages, "_HERE_KEYS", 0)
    runner = Watched()
    for lines, mode in ((FIRST, "append"), (CHANGED, "merge")):
        expected.load(lines, mode)
        lab.load(lines, mode, runner=runner, **terms)
    assert lab.rows("node:Person") == expected.rows("node:Person")
    found = lab.violations(FAULTY, runner=runner, **terms)
    assert [each["message"] for each in found] == [
        each["message"] for each in expected.violations(FAULTY)
    ]
    assert len(found) == 3
    assert ({"match", "judge"} <= runner.stages) is not here
