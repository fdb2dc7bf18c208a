"""Bulk work on disks that are full: a typed error, nothing visible, nothing left behind.

In this process and on Spark; what Spark itself writes comes last.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.session import acquire, stop_all
from omnigraph.errors import Effect, Unavailable
from omnigraph.types import LoadMode
from tests.faults.disks import fill, small_disk

SCHEMA = "node Person { name: String @key  text: String? }  edge Knows: Person -> Person"
DISK_BYTES = 16 << 20
LOCAL_DISK_BYTES = 128 << 20  # what Spark exchanges for one query has room
ROWS = 12_000
TEXT_BYTES = 600  # as many as two bytes of nothing that can be packed
ENGINES = ["inprocess", pytest.param("spark", marks=pytest.mark.deep)]
LEFT_KIB = [0, 300, pytest.param(4_000, marks=pytest.mark.deep)]
SORTED = """
query q() {
  match { $p: Person  $p knows $f }
  return { $p.text as one, $f.text as two } order { $p.text asc, $f.text desc }
}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as place:
        yield place


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "inprocess":
        return {"engine": "inprocess"}
    return {"engine": "spark", "spark": "local[2,3]"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than a disk holds, in several pieces."""
    path = tmp_path_factory.mktemp("rows") / "Person.parquet"
    names = [f"p{number}" for number in range(ROWS)]
    texts = [os.urandom(TEXT_BYTES).hex() for _ in names]
    pq.write_table(pa.table({"name": names, "text": texts}), path, row_group_size=2_000)
    return path


def made(folder: Path) -> og.Graph:
    graph = og.init(folder / "g.omni", SCHEMA)
    graph.load({"Person": [{"name": f"p{number}", "text": "old"} for number in range(1_000)]})
    return graph


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.name != "filler"}


def check_refused(graph: og.Graph, disk: Path, left_kib: int, work: Callable[[], object]) -> None:
    """The work fails for the lack of space, changes nothing, and leaves nothing on the disk."""
    before, counts = files(disk), graph.snapshot().counts
    filler = fill(disk, left_kib << 10)
    with pytest.raises(Unavailable, match="No space left on device") as caught:
        work()
    assert caught.value.effect is Effect.NONE
    assert caught.value.details["place"]
    assert graph.snapshot().counts == counts
    assert files(disk) == before
    filler.unlink()
    graph.refresh()
    assert graph.snapshot().counts == counts


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("left_kib", LEFT_KIB)
def test_a_load_into_a_graph_on_a_full_disk(
    disk: Path, rows: Path, engine: dict[str, Any], left_kib: int, mode: LoadMode
) -> None:
    with made(disk) as graph:
        source = {"Person": str(rows)}
        if mode == "append":
            source = {"Person": str(_others(rows))}
        check_refused(graph, disk, left_kib, lambda: graph.load(source, mode=mode, **engine))
        graph.load({"Person": [{"name": "later"}]}, **engine)
        assert graph.snapshot().counts["node:Person"] == 1_001


@pytest.mark.parametrize("left_kib", LEFT_KIB)
def test_an_export_to_a_full_disk(
    tmp_path: Path, disk: Path, rows: Path, engine: dict[str, Any], left_kib: int
) -> None:
    with made(tmp_path) as graph:
        graph.load({"Person": str(rows)}, mode="merge")
        target = f"{disk / 'out'}/"
        check_refused(graph, disk, left_kib, lambda: graph.export(target, **engine))
        (tmp_path / "out").mkdir()
        assert graph.export(f"{tmp_path / 'out'}/", **engine).rows["node:Person"] == ROWS


def test_a_stream_that_fills_the_folder_for_temporary_files(
    tmp_path: Path,
    disk: Path,
    rows: Path,
    engine: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with made(tmp_path) as graph:
        lines = tmp_path / "out.ndjson"
        graph.load({"Person": str(rows)}, mode="merge")
        graph.export(lines)
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with lines.open("rb") as stream:
            work = lambda: graph.load(stream, mode="merge", **engine)  # noqa: E731
            check_refused(graph, disk, 300, work)


@pytest.mark.parametrize("left_kib", [0, 300])
def test_a_list_of_violations_on_a_full_disk(
    tmp_path: Path, disk: Path, engine: dict[str, Any], left_kib: int
) -> None:
    with made(tmp_path) as graph:
        known = [{"name": f"p{number % 1_000}"} for number in range(20_000)]
        path = disk / "violations.jsonl"

        def work() -> None:
            graph.load({"Person": known}, violations_file=path, **engine)

        check_refused(graph, disk, left_kib, work)


@pytest.mark.deep
def test_the_local_folder_of_spark_is_full(tmp_path: Path, rows: Path) -> None:
    stop_all()  # a session that runs has its folder already
    with (
        made(tmp_path) as graph,
        small_disk(tmp_path / "disk", LOCAL_DISK_BYTES) as disk,
        acquire(configured("local[2,3]", {"spark.local.dir": str(disk)})) as held,
    ):
        graph.load({"Person": str(rows)}, mode="merge")
        edges = [{"from": f"p{n}", "to": f"p{n + 1}"} for n in range(ROWS - 1)]
        graph.load({"Knows": edges})
        session = held.session
        # Sorted by tasks, which write what they have sorted.
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        filler = fill(disk, 0)
        try:
            with pytest.raises(Unavailable, match="No space left on device") as caught:
                graph.query(SORTED, engine="spark", spark=session).to_pylist()
            assert "spark.local.dir" in str(caught.value)
            filler.unlink()
            found = graph.query(SORTED, engine="spark", spark=session).to_pylist()
            assert len(found) == ROWS - 1
        finally:
            stop_all()  # others must not use a folder that goes


def _others(rows: Path) -> Path:
    """The same rows under names that nobody has."""
    path = rows.with_name("others.parquet")
    if not path.exists():
        table = pq.read_table(rows)
        names = pa.array([f"q{number}" for number in range(ROWS)])
        pq.write_table(table.set_column(0, "name", names), path, row_group_size=2_000)
    return path
