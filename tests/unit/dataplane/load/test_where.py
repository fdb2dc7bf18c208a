"""Where keys are judged, here or elsewhere and in how many parts, does not change what is found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.exchange import PARTITIONS_MAX
from omnigraph.dataplane.load.reading import partitions_for
from omnigraph.dataplane.load.request import LoadRequest
from omnigraph.dataplane.run.runner import Item, Result
from omnigraph.dataplane.source.model import Compression, FileInput, Format, TypeRef
from omnigraph.dataplane.source.sizing import SAMPLED_FILES, Sizes
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
    monkeypatch.setattr(tuning.active, "few_keys_max", 0)  # as if there were many
    if not here:
        terms["driver_keys"] = 0
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
    request = LoadRequest(inputs=(given,), catalog=PLACES, mode="append")
    assert partitions_for(request, Sizes(request.inputs), is_far=is_far) == partitions


def test_rows_count_not_packed_bytes(tmp_path: Path) -> None:
    """Parquet that repeats itself is small, and its keys are as many as its rows."""
    path = tmp_path / "Word.parquet"
    count = 3_000_000
    pq.write_table(pa.table({"k": pa.repeat("same", count)}), path)
    size = path.stat().st_size
    assert size < 100_000
    kind = TypeRef(kind="node", name="Word")
    given = FileInput(uri=str(path), name="x", format=Format.PARQUET, size=size, type=kind)
    request = LoadRequest(inputs=(given,), catalog=PLACES, mode="append")
    assert partitions_for(request, Sizes(request.inputs), is_far=False) == 23


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_packed_lines_grow_to_counts(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.jsonl{suffix}"
    with pa.output_stream(str(path), compression="detect") as file:
        for number in range(400):
            file.write(b'{"type": "Word", "data": {"k": "%d"}}\n' % number * 2_000)
    kind = Compression.GZIP if suffix == ".gz" else Compression.ZSTD
    size = path.stat().st_size
    given = FileInput(uri=str(path), name="x", format=Format.NDJSON, compression=kind, size=size)
    found = Sizes([given]).of(given)
    plain = 400 * 2_000 * 38
    assert found is not None
    assert size * 20 < plain
    assert plain * 0.8 < found.plain < plain * 1.25


def test_files_of_a_kind_are_taken_to_be_alike(tmp_path: Path) -> None:
    files = []
    for number in range(3 * SAMPLED_FILES):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"k": [f"{number} {row}" for row in range(100)]}), path)
        size = path.stat().st_size
        files.append(FileInput(uri=str(path), name="x", format=Format.PARQUET, size=size))
    sizes = Sizes(files)
    for path in tmp_path.iterdir():
        path.unlink()
    rows = [found.rows for item in files if (found := sizes.of(item)) is not None]
    assert len(rows) == len(files)
    assert all(90 <= (each or 0) <= 110 for each in rows)
    damaged = FileInput(uri=str(tmp_path / "none"), name="x", format=Format.PARQUET, size=10)
    found = Sizes([damaged]).of(damaged)
    assert found is not None
    assert found.plain == 30


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("partitions", [1, 4])
def test_a_driver_judges_no_more_keys_than_its_bound(
    tmp_path: Path, mode: str, partitions: int, is_over: bool
) -> None:
    lab = lab_at(tmp_path)
    lab.load(FIRST)
    lines = CHANGED if mode == "merge" else [person("x"), person("y"), edge("Knows", "x", "y")]
    runner = Watched()
    bound = 3 if is_over else 30
    lab.load(lines, mode, runner=runner, partitions=partitions, split_bytes=60, driver_keys=bound)
    asked = {"judge", "match"} if mode == "merge" else {"judge"}
    assert asked & runner.stages == (asked if is_over else set())
