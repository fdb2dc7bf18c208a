"""Graphs of the original in its formats 1 to 4: read as they are, and taken over by writing."""

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lance
import pytest

import omnigraph as og
from omnigraph.core import tuning
from omnigraph.core.commits.records import MARK, STAMP
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.formats import CURRENT, ManifestFormat, format_of
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.errors import Code, Conflict, Corrupt, GraphError, InvalidInput
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId
from tests.originals import (
    ACTORS,
    EDGES,
    FEATURE,
    INIT,
    LATER,
    PEOPLE,
    RUN,
    SCHEMA,
    Original,
    make_original,
)

ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
PAIRS = "query pairs() { match { $a: Person  $a knows $b } return { $a.name as a, $b.name as b } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
SAMPLES = Path(__file__).parents[2] / "data" / "originals"
FORMATS = (1, 2, 3, 4)
MAIN_NAMES, FEATURE_NAMES = ["Ada", "Bo", "Di"], ["Ada", "Bo", "Cy"]


def names(graph: og.Graph, branch: str = "main", at: str | None = None) -> list[str]:
    return [row["name"] for row in graph.query(ALL, branch=branch, at=at)]


def history(graph: og.Graph, branch: str = "main") -> list[tuple[str, str | None]]:
    return [(str(commit.id), commit.actor) for commit in graph.commits.list(branch)]


def stamp_of(path: Path, branch: str | None = None) -> dict[bytes, bytes]:
    place = path / MANIFEST / (f"tree/{branch}" if branch else "")
    return dict(lance.dataset(place).schema.metadata or {})


def manifests(path: Path) -> list[tuple[str, Any]]:
    """Every version of the manifest of main, with its stamp."""
    place = path / MANIFEST
    numbers = [each["version"] for each in lance.dataset(place).versions()]
    found = [lance.dataset(place, version=number) for number in numbers]
    key = STAMP.encode()
    return [((each.schema.metadata or {}).get(key, b"1").decode(), each) for each in found]


def files(path: Path) -> dict[str, bytes]:
    return {str(item): item.read_bytes() for item in path.rglob("*") if item.is_file()}


@pytest.fixture(params=FORMATS)
def original(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_original(tmp_path / "graph", request.param)
    return tmp_path / "graph"


@pytest.fixture
def third(tmp_path: Path) -> Path:
    make_original(tmp_path / "graph", 3)
    return tmp_path / "graph"


def assert_content(graph: og.Graph) -> None:
    assert set(graph.branches.list()) == {"main", "feature"}
    assert (names(graph), names(graph, "feature")) == (MAIN_NAMES, FEATURE_NAMES)
    assert graph.query(PAIRS).to_pylist() == [{"a": "Ada", "b": "Bo"}]
    expected = [(id, ACTORS.get(id)) for id in (LATER, EDGES, PEOPLE, INIT)]
    assert history(graph) == expected
    assert history(graph, "feature") == [(FEATURE, "cy"), *expected[1:]]
    assert [names(graph, at=id) for id in (INIT, PEOPLE, EDGES)] == [
        [],
        ["Ada", "Bo"],
        ["Ada", "Bo"],
    ]
    assert names(graph, "feature", FEATURE) == FEATURE_NAMES


def test_reading_shows_everything_and_changes_nothing(original: Path) -> None:
    before = files(original)
    with og.open(original, "r") as graph:
        assert_content(graph)
        assert graph.commits.list()[0].created_at.year == 2025
        with pytest.raises(InvalidInput, match="written in Rust"):
            graph.copy_to(original.parent / "copy")
    assert files(original) == before


def test_main_is_taken_over_by_opening_and_a_branch_by_its_first_write(original: Path) -> None:
    with og.open(original) as graph:
        assert stamp_of(original)[MARK.encode()] == b"6"
        assert MARK.encode() not in stamp_of(original, "feature")
        assert_content(graph)
        graph.mutate(ADD, {"n": "Ed"}, branch="feature")
        assert stamp_of(original, "feature")[MARK.encode()] == b"6"
    assert not (original / MANIFEST / "tree" / RUN).exists()
    with og.open(original) as graph:
        assert names(graph, "feature", FEATURE) == FEATURE_NAMES
        assert names(graph, at=PEOPLE) == ["Ada", "Bo"]
        graph.mutate(ADD, {"n": "Fy"})
        assert graph.branches.merge("feature", "main").commit is not None
        assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Ed", "Fy"]
        assert [id for id, _ in history(graph)][-4:] == [LATER, EDGES, PEOPLE, INIT]
        graph.branches.delete("feature")
        graph.optimize()
    with og.open(original) as graph:
        assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Ed", "Fy"]
        graph.copy_to(original.parent / "copy")
    with og.open(original.parent / "copy", "r") as graph:
        assert names(graph, at=PEOPLE) == ["Ada", "Bo"]


def test_forks_of_tables_that_the_original_made_are_those_of_their_branch(original: Path) -> None:
    with og.open(original) as graph:
        graph.mutate(ADD, {"n": "New"}, branch="feature")
        assert graph.verify("rows").findings == ()


def test_a_branch_is_made_from_an_old_commit_and_written_to(original: Path) -> None:
    with og.open(original) as graph:
        graph.branches.create("old", at=PEOPLE)
        assert names(graph, "old") == ["Ada", "Bo"]
        graph.mutate(ADD, {"n": "Ed"}, branch="old")
        assert [id for id, _ in history(graph, "old")][1:] == [PEOPLE, INIT]
        graph.branches.merge("old", "main")
        assert names(graph) == ["Ada", "Bo", "Di", "Ed"]
        graph.load({"Person": [{"name": "Gy"}]}, branch="made", create_from="feature")
        assert names(graph, "made") == [*FEATURE_NAMES, "Gy"]


def test_old_commits_keep_the_schema_that_they_had(original: Path) -> None:
    with og.open(original) as graph:
        graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
        graph.mutate('query q() { update Person set { city: "x" } where name = "Ada" }')
        assert names(graph, at=PEOPLE) == ["Ada", "Bo"]
        assert names(graph, "feature") == FEATURE_NAMES
    with og.open(original) as graph:
        assert names(graph, at=PEOPLE) == ["Ada", "Bo"]
        graph.mutate(ADD, {"n": "Ed"}, branch="feature")
        assert names(graph, "feature") == [*FEATURE_NAMES, "Ed"]


def test_a_commit_keeps_the_version_that_published_it(original: Path) -> None:
    with _opened(original) as repo:
        before = {id: repo.snapshot_at(CommitId(id)).manifest_version for id in (PEOPLE, EDGES)}
    assert before == {PEOPLE: 2, EDGES: 3}
    with _opened(original, OpenMode.READ_WRITE) as repo:
        for id, version in before.items():
            assert repo.snapshot_at(CommitId(id)).manifest_version == version
            assert repo.manifest.commits(MAIN).manifest_version(CommitId(id)) == version


@contextmanager
def _opened(path: Path, mode: OpenMode = OpenMode.READ_ONLY) -> Iterator[Repository]:
    root = Root.parse(str(path))
    repo = Repository.open(root, components(root, durable=False), mode)
    yield repo
    repo.close()


def test_the_table_of_actors_may_be_missing(tmp_path: Path) -> None:
    make_original(tmp_path, 3, actors=False)
    with og.open(tmp_path) as graph:
        assert [actor for _, actor in history(graph)] == [None] * 4
        assert names(graph) == MAIN_NAMES


def test_a_graph_without_lineage_gets_one_commit(third: Path) -> None:
    shutil.rmtree(third / "_graph_commits.lance")
    with og.open(third, "r") as graph:
        seen = history(graph)
        assert (len(seen), names(graph)) == (1, MAIN_NAMES)
    with og.open(third) as graph:
        assert history(graph) == seen
        graph.mutate(ADD, {"n": "Ed"})
        assert names(graph, at=seen[0][0]) == MAIN_NAMES


@pytest.mark.parametrize("table", ["_graph_commits.lance", "_graph_commit_actors.lance"])
def test_lineage_that_cannot_be_read_ends_the_migration_before_the_stamp(
    third: Path, table: str
) -> None:
    for version in (third / table / "_versions").glob("*.manifest"):
        version.write_bytes(b"\x01" * 64)
    before = stamp_of(third)
    for mode in ("r", "rw"):
        with pytest.raises(GraphError):
            og.open(third, mode)
    assert stamp_of(third) == before
    assert before[STAMP.encode()] == b"3"


def test_a_graph_whose_newest_state_is_missing_is_not_taken_over(original: Path) -> None:
    versions = original / MANIFEST / "_versions"
    newest = min(versions.glob("*.manifest"))  # names count down
    newest.unlink()
    before = files(original)
    with pytest.raises(Corrupt, match="newest version of branch 'main' is missing") as caught:
        og.open(original)
    assert caught.value.details["path"] == f"{MANIFEST}/_versions/{newest.name}"
    assert files(original) == before


def test_a_missing_version_of_a_table_ends_the_migration_with_its_name(third: Path) -> None:
    place = third / "edges"
    (table,) = place.iterdir()
    newest = min((table / "_versions").glob("*.manifest"))
    newest.unlink()
    with pytest.raises(Corrupt) as caught:
        og.open(third)
    assert str(caught.value.details["path"]).endswith(newest.name)


def test_a_damaged_deletion_file_is_damage(tmp_path: Path) -> None:
    make_original(tmp_path, 4)
    for file in (tmp_path / MANIFEST / "_deletions").iterdir():
        file.write_bytes(file.read_bytes()[:-10])
    for mode in ("r", "rw"):
        with pytest.raises(Corrupt):
            og.open(tmp_path, mode)


def test_the_lineage_of_a_branch_that_is_missing_is_not_an_empty_one(third: Path) -> None:
    lance.dataset(third / "_graph_commits.lance").branches.delete("feature")
    with og.open(third) as graph:
        assert names(graph) == MAIN_NAMES
        with pytest.raises(Corrupt, match="lineage of branch 'feature' is missing"):
            graph.mutate(ADD, {"n": "Ed"}, branch="feature")


def test_rows_that_rivals_landed_twice_are_there_once(tmp_path: Path) -> None:
    make_original(tmp_path, 1)
    keys = lance.dataset(tmp_path / MANIFEST).to_table(["object_id"])["object_id"].to_pylist()
    assert len(keys) == len(set(keys)) + 1
    with og.open(tmp_path) as graph:
        assert_content(graph)
    annotated = [each for stamp, each in manifests(tmp_path) if stamp == "2"]
    assert annotated
    for dataset in annotated:
        found = dataset.to_table(["object_id"])["object_id"].to_pylist()
        assert len(found) == len(set(found))


def test_every_format_is_passed_on_the_way(tmp_path: Path) -> None:
    make_original(tmp_path, 1)
    og.open(tmp_path).close()
    seen = [stamp for stamp, _ in manifests(tmp_path)]
    seen = [stamp for stamp, before in zip(seen, ["", *seen], strict=False) if stamp != before]
    assert seen == ["1", "2", "3", "4", "1000006"]


def test_a_schema_that_is_not_understood_is_refused(third: Path) -> None:
    (third / "_schema.pg").write_text("node { nonsense")
    with pytest.raises(Corrupt, match="export it there") as caught:
        og.open(third)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert stamp_of(third)[STAMP.encode()] == b"3"


def test_tables_that_do_not_fit_the_schema_are_refused(third: Path) -> None:
    (third / "_schema.pg").write_text(SCHEMA.replace("age: I32?", "age: String?"))
    with pytest.raises(Corrupt, match="columns of node:Person") as caught:
        og.open(third)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert MARK.encode() not in stamp_of(third)


# -- rivals ----------------------------------------------------------------------------------------


class Overtaken:
    """Tables of which the manifest is moved by somebody else, just before a step lands."""

    def __init__(self, inner: Tables, path: Path, times: int) -> None:
        self._inner = inner
        self._path = path
        self.left = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in {"stamp", "merge_rows", "land"}:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            pin = args[0] if isinstance(args[0], Pin) else None
            if self.left and (pin is None or pin.path == MANIFEST):
                self.left -= 1
                lance.dataset(self._path / MANIFEST).update_config({"rival": str(self.left)})
            return found(*args, **kwargs)

        return call


def overtaken(path: Path, times: int) -> Repository:
    root = Root.parse(str(path))
    parts = components(root, durable=False)
    tables = cast("Tables", Overtaken(parts.tables, path, times))
    return Repository.open(root, replace(parts, tables=tables), OpenMode.READ_WRITE)


def test_who_is_overtaken_looks_again_and_goes_on(third: Path) -> None:
    repo = overtaken(third, tuning.active.migration_attempts_max - 1)
    repo.snapshot()
    assert repo.manifest.format(MAIN) == CURRENT
    with og.open(third) as graph:
        assert_content(graph)


def test_who_is_overtaken_again_and_again_is_told_to_try_again(third: Path) -> None:
    with pytest.raises(Conflict) as caught:
        overtaken(third, 1_000)
    assert caught.value.code is Code.HEAD_CONTENTION
    with og.open(third) as graph:
        assert_content(graph)


# -- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("stamp", [0, 5, 6, 12])
def test_other_formats_of_the_original_are_refused(tmp_path: Path, stamp: int, mode: str) -> None:
    Original(tmp_path, 4).make()
    lance.dataset(tmp_path / MANIFEST).update_schema_metadata({STAMP: str(stamp)})
    before = files(tmp_path)
    with pytest.raises(Corrupt) as caught:
        og.open(tmp_path, mode)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert caught.value.details["written_by"] == "rust"
    assert caught.value.details["found"] == stamp
    assert "export it there" in str(caught.value)
    assert "`omnigraph load`" in str(caught.value)
    assert files(tmp_path) == before


def test_a_branch_of_a_format_that_is_not_known_is_refused(third: Path) -> None:
    lance.dataset(third / MANIFEST / "tree" / "feature").update_schema_metadata({STAMP: "9"})
    with og.open(third) as graph:
        assert names(graph) == MAIN_NAMES
        with pytest.raises(Corrupt) as caught:
            names(graph, "feature")
        assert caught.value.code is Code.FORMAT_UNSUPPORTED


def test_ours_is_never_taken_for_the_original(tmp_path: Path) -> None:
    """The original refuses numbers that it does not know; ours are beyond all of them."""
    og.init(tmp_path, SCHEMA).close()
    found = stamp_of(tmp_path)
    assert (found[MARK.encode()], found[STAMP.encode()]) == (b"6", b"1000006")
    with _opened(tmp_path) as repo:
        pin = Pin(MANIFEST, repo.snapshot().manifest_version)
        assert format_of(repo.tables.open(pin)) == ManifestFormat(6)
        assert repo.manifest.format(BranchName("main")).is_current


@pytest.mark.parametrize("number", FORMATS)
def test_a_stored_sample_is_taken_over_at_another_place(tmp_path: Path, number: int) -> None:
    with tarfile.open(SAMPLES / f"original-{number}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    place = tmp_path / "graph"
    with og.open(place, "r") as graph:
        assert names(graph) == MAIN_NAMES
        with pytest.raises(Corrupt) as caught:
            names(graph, "feature")
        assert caught.value.code is Code.GRAPH_MOVED
    og.relocate(place)
    with og.open(place) as graph:
        assert_content(graph)
        graph.mutate(ADD, {"n": "Ed"}, branch="feature")
        assert names(graph, "feature") == [*FEATURE_NAMES, "Ed"]
