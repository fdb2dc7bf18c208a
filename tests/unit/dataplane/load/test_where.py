"""Where keys are judged, here or elsewhere and in how many parts, does not change what is found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omnigraph.dataplane.load import stages
from omnigraph.dataplane.load.exchange import PARTITIONS_MAX
from omnigraph.dataplane.load.reading import partitions_for
from omnigraph.dataplane.load.request import LoadMode, LoadRequest
from omnigraph.dataplane.run.runner import Item, Result
from omnigraph.dataplane.source.model import FileInput, Format, TypeRef
from omnigraph.lang import compile_schema
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


PLACES = compile_schema(
    "node Word { k: String @key }\nnode Doc { k: String @key\n v: Vector(384) }"
)


@pytest.mark.parametrize(
    ("type_name", "size", "is_far", "partitions"),
    [
        ("Word", 10 << 20, False, 1),
        ("Word", 160 << 20, False, 30),
        ("Word", 160 << 20, True, 8),
        # Vectors come without keys.
        ("Doc", 160 << 20, False, 3),
        (None, 160 << 20, False, 30),
        ("Word", None, False, 64),
        ("Word", 1 << 50, False, PARTITIONS_MAX),
    ],
)
def test_into_how_many_parts_keys_are_divided(
    type_name: str | None, size: int | None, is_far: bool, partitions: int
) -> None:
    kind = TypeRef(kind="node", name=type_name) if type_name else None
    given = FileInput(uri="x", name="x", format=Format.PARQUET, size=size, type=kind)
    request = LoadRequest(inputs=(given,), catalog=PLACES, mode=LoadMode.APPEND)
    assert partitions_for(request, is_far=is_far) == partitions
