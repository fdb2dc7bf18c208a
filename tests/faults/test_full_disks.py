"""Disks that are full, read-only or forbidden: failures are typed, nothing promised is lost."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Effect, GraphError, Unavailable
from tests.faults import damage
from tests.faults.disks import fill, small_disk
from tests.faults.harness import children

DISK_BYTES = 6 << 20
NOBODY = 65_534
NAMES = "query names() { match { $p: Person } return { $p.name as name } order { $p.name } }"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as place:
        yield place


@pytest.fixture
def graph(disk: Path) -> Iterator[og.Graph]:
    damage.make(disk / "graph", indexed=False)
    with og.open(disk / "graph") as graph:
        yield graph


def add(graph: og.Graph, name: str) -> None:
    graph.mutate(f'query add() {{ insert Person {{ name: "{name}", age: 1 }} }}')


def load(graph: og.Graph, name: str) -> None:
    graph.load({"Company": pa.table({"name": [name]})})


WRITES: dict[str, Callable[[og.Graph], object]] = {
    "mutate": lambda graph: add(graph, "new"),
    "load": lambda graph: load(graph, "new"),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "optimize": lambda graph: graph.optimize(),
    "branch": lambda graph: graph.branches.create("side"),
    "export": lambda graph: graph.export(Path(graph.uri).parent / "out.ndjson"),
}


SOME = [
    name if name in ("mutate", "ensure_indices") else pytest.param(name, marks=pytest.mark.deep)
    for name in WRITES
]


def ended(write: Callable[[og.Graph], object], graph: og.Graph) -> GraphError | None:
    """How a write ended; whatever is not of our tree fails the test."""
    try:
        write(graph)
    except GraphError as error:
        return error
    return None


def names(graph: og.Graph) -> list[str]:
    return [row["name"] for row in graph.query(NAMES)]


@pytest.mark.parametrize("name", SOME)
def test_a_full_disk(disk: Path, graph: og.Graph, name: str) -> None:
    before = names(graph)
    fill(disk, 0)
    error = ended(WRITES[name], graph)
    assert isinstance(error, Unavailable)
    assert "No space left" in str(error)
    assert error.details["place"]
    assert names(graph) == before
    (disk / "filler").unlink()
    assert names(og.open(graph.uri)) == before
    WRITES[name](graph)


@pytest.mark.parametrize(
    "kib", [8, 28, *(pytest.param(k, marks=pytest.mark.deep) for k in (4, 12, 20, 40, 60, 80))]
)
def test_a_disk_that_becomes_full_on_the_way(disk: Path, graph: og.Graph, kib: int) -> None:
    before = names(graph)
    fill(disk, kib << 10)
    acknowledged = []
    for number in range(40):
        error = ended(partial(add, name=f"new{number:02}"), graph)
        if error is not None:
            assert isinstance(error, Unavailable) or error.effect is Effect.UNKNOWN, error
            break
        acknowledged.append(f"new{number:02}")
    ended(WRITES["ensure_indices"], graph)
    (disk / "filler").unlink()
    with og.open(graph.uri) as again:
        found = names(again)
        assert set(found) >= {*before, *acknowledged}
        assert len(found) - len(before) - len(acknowledged) in (0, 1)
        add(again, "last")
        again.ensure_indices()
        assert names(again) == sorted([*found, "last"])


@pytest.mark.parametrize("name", SOME)
def test_a_read_only_disk(disk: Path, graph: og.Graph, name: str) -> None:
    before = names(graph)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    error = ended(WRITES[name], graph)
    assert isinstance(error, Unavailable)
    assert "Read-only file system" in str(error)
    assert names(graph) == before
    assert names(og.open(graph.uri)) == before
    assert names(og.open(graph.uri, "r")) == before


@pytest.fixture
def common(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can get to."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-forbidden-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def visited_as_nobody(folder: Path) -> list[damage.Outcome]:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    damage.make(folder / "other")
    mine, theirs = children.Pipe(duplex=False)
    arguments = (folder / "graph", folder / "other", folder / "home", NOBODY, theirs)
    child = children.Process(target=damage.visit_as, args=arguments)
    child.start()
    theirs.close()
    try:
        found: list[damage.Outcome] = mine.recv()
    finally:
        child.join()
    return found


def test_a_graph_that_belongs_to_somebody_else(common: Path) -> None:
    damage.make(common / "graph")
    outcomes = visited_as_nobody(common)
    for each in outcomes:
        writes = each.step in ("write", "write dev", "grow", "link")
        assert each.error == ("Unavailable" if writes else None), each
        assert not writes or "ermission denied" in each.message


@pytest.mark.parametrize(
    "what",
    [
        "_schemas",
        *(
            pytest.param(place, marks=pytest.mark.deep)
            for place in ("nodes", "__manifest/_versions", "__manifest/data")
        ),
    ],
)
def test_a_graph_that_may_not_be_read(common: Path, what: str) -> None:
    damage.make(common / "graph")
    (common / "graph" / what).chmod(0o700)
    outcomes = visited_as_nobody(common)
    assert any(each.error == "Unavailable" for each in outcomes)
    assert all(each.error is None or each.code is not None for each in outcomes), outcomes
