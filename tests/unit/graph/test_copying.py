"""Copies of graphs: whole, of a branch, of a state; resumed, verified, and never half a graph."""

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import COPY_MARK
from omnigraph.core.maintenance.copy_plan import CopyPlanner
from omnigraph.errors import Code, Conflict, Corrupt, Gone, GraphError, InvalidInput, NotFound
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Refuse

SCHEMA = "node Person { name: String @key  note: String? @index  face: Blob? }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
FACE = 'query f() { update Person set { face: "base64:aGVsbG8=" } where name = "Ada" }'
ADD = "query add($n: String) { insert Person { name: $n, note: $n } }"


def names(graph: og.Graph, branch: str = "main", at: str | None = None) -> list[str]:
    return [row["name"] for row in graph.query(ALL, branch=branch, at=at)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph with branches, a deleted one, one made with a load, a tag, indexes and blobs."""
    place = tmp_path / "home"
    with og.init(place, SCHEMA) as graph:
        graph.mutate(ADD, {"n": "Ada"})
        graph.branches.create("gone")
        graph.mutate(ADD, {"n": "Xi"}, branch="gone")
        graph.branches.delete("gone")
        graph.branches.create("gone")
        graph.branches.create("dev")
        graph.mutate(ADD, {"n": "Bo"}, branch="dev")
        graph.branches.create("sub/2", "dev")
        graph.mutate(ADD, {"n": "Cy"}, branch="sub/2")
        graph.load({"Person": [{"name": "Di"}]}, branch="made", create_from="dev")
        graph.mutate(
            'query f() { update Person set { face: "base64:aGVsbG8=" } where name = "Ada" }'
        )
        graph.tags.create("v1")
        graph.optimize()
    return place


EVERYTHING = {
    "main": ["Ada"],
    "gone": ["Ada"],
    "dev": ["Ada", "Bo"],
    "sub/2": ["Ada", "Bo", "Cy"],
    "made": ["Ada", "Bo", "Di"],
}


def assert_everything(place: Path | str) -> None:
    with og.open(place) as graph:
        assert set(graph.branches.list()) == set(EVERYTHING)
        for branch, expected in EVERYTHING.items():
            assert names(graph, branch) == expected
        assert names(graph, at="v1") == ["Ada"]
        assert graph.read_blob("Person", "Ada", "face") == b"hello"


def test_everything_is_copied_and_goes_on_by_itself(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "a" / "copy"
    with og.open(home, "r") as graph:
        done = graph.copy_to(other)
        history = [str(commit.id) for commit in graph.commits.list()]
    assert done.branches == tuple(sorted(EVERYTHING))
    assert (done.commit, done.reused, done.engine) == (history[0], 0, "inprocess")
    shutil.rmtree(home)
    assert_everything(other)
    with og.open(other) as graph:
        assert [str(commit.id) for commit in graph.commits.list()] == history
        assert names(graph, at=history[-1]) == []
        graph.mutate(ADD, {"n": "Ed"}, branch="sub/2")
        graph.branches.merge("sub/2", "main")
        graph.branches.delete("gone")
        graph.branches.create("gone")
        graph.optimize()
        assert names(graph) == ["Ada", "Bo", "Cy", "Ed"]
    assert og.relocate(other).changed == 0


def test_later_writes_are_not_part_of_it(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with og.open(home) as graph, failpoints.armed({Fp.PUBLISH: Refuse()}):
        with pytest.raises(GraphError):
            graph.mutate(ADD, {"n": "landed, not published"})
        graph.copy_to(other)
    assert_everything(other)
    with og.open(other) as graph:
        assert graph.recover().writes == ()
        graph.mutate(ADD, {"n": "Zo"})
        assert names(graph) == ["Ada", "Zo"]


def test_one_branch_comes_with_those_it_was_made_from(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with og.open(home) as graph:
        done = graph.copy_to(other, branch="sub/2")
        assert done.commit == str(graph.commits.list("sub/2")[0].id)
    with og.open(other) as graph:
        assert set(graph.branches.list()) == {"main", "dev", "sub/2"}
        assert names(graph, "sub/2") == ["Ada", "Bo", "Cy"]
        graph.branches.merge("sub/2", "main")
        assert names(graph) == ["Ada", "Bo", "Cy"]
        graph.branches.create("made")


@pytest.mark.parametrize("branch", ["main", "made"])
def test_one_state_has_no_older_ones(home: Path, tmp_path: Path, branch: str) -> None:
    other, whole = tmp_path / "copy", tmp_path / "whole"
    with og.open(home) as graph:
        graph.mutate(ADD, {"n": "Ed"}, branch=branch)
        history = [str(commit.id) for commit in graph.commits.list(branch)]
        at, oldest = history[1], history[-1]
        before = names(graph, branch, at)
        done = graph.copy_to(other, branch=branch, at=at)
        assert done.commit == at
        assert done.files < graph.copy_to(whole).files
    with og.open(other) as graph:
        assert names(graph, branch) == before
        assert [str(commit.id) for commit in graph.commits.list(branch)] == history[1:]
        with pytest.raises(Gone):
            names(graph, branch, oldest)
        graph.mutate(ADD, {"n": "Fy"}, branch=branch)
        if branch != "main":
            graph.branches.merge(branch, "main")
        graph.optimize()
        assert "Fy" in names(graph)


def test_an_unfinished_copy_is_no_graph_and_is_gone_on_with(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with og.open(home) as graph:
        with failpoints.armed({Fp.COPY_FINISH: Refuse()}), pytest.raises(GraphError):
            graph.copy_to(other)
        assert (other / COPY_MARK).exists()
        for mode in ("r", "rw"):
            with pytest.raises(Conflict, match="not finished") as caught:
                og.open(other, mode)
            assert caught.value.code is Code.COPY_UNFINISHED
        with pytest.raises(Conflict, match="not finished"):
            og.init(other, SCHEMA)
        # Meanwhile a branch goes, and another one comes.
        graph.branches.delete("gone")
        graph.mutate(ADD, {"n": "Zo"})
        done = graph.copy_to(other)
        assert done.reused > done.files // 3
        with pytest.raises(Conflict) as caught:
            graph.copy_to(other)
        assert caught.value.code is Code.GRAPH_EXISTS
    with og.open(other) as graph:
        assert "gone" not in graph.branches.list()
        assert names(graph) == ["Ada", "Zo"]
        graph.branches.create("gone")


def test_the_unfinished_copy_of_another_graph_is_left_alone(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with (
        og.open(home) as graph,
        failpoints.armed({Fp.COPY_FINISH: Refuse()}),
        pytest.raises(GraphError),
    ):
        graph.copy_to(other)
    with og.init(tmp_path / "second", SCHEMA) as graph:
        with pytest.raises(Conflict, match="unfinished copy of") as caught:
            graph.copy_to(other)
        assert caught.value.details["source"] == str(home)


def test_what_arrives_damaged_is_found_and_made_good(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with og.open(home) as graph:
        with failpoints.armed({Fp.COPY_FINISH: Refuse()}), pytest.raises(GraphError):
            graph.copy_to(other)
        victims = [path for path in other.rglob("*.lance") if path.parent.name == "data"]
        for victim in victims:
            data = bytearray(victim.read_bytes())
            data[len(data) // 2] ^= 0xFF
            victim.write_bytes(data)
        done = graph.copy_to(other)
        assert done.bytes >= sum(victim.stat().st_size for victim in victims)
    assert_everything(other)


def test_a_damaged_source_is_not_copied_silently(home: Path, tmp_path: Path) -> None:
    victim = next((home / "__manifest" / "tree" / "dev" / "_versions").glob("*.manifest"))
    data = bytearray(victim.read_bytes())
    data[-20] ^= 0xFF
    victim.write_bytes(data)
    with og.open(home) as graph, pytest.raises(Corrupt):
        graph.copy_to(tmp_path / "copy")
    with pytest.raises((Conflict, NotFound)):
        og.open(tmp_path / "copy")


def test_a_lost_reply_of_the_last_step_is_success(home: Path, tmp_path: Path) -> None:
    with og.open(home) as graph, failpoints.armed({Fp.COPY_FINISH: failpoints.LostReply()}):
        graph.copy_to(tmp_path / "copy")
    assert_everything(tmp_path / "copy")


def test_where_a_copy_may_not_be(home: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with og.open(home) as graph:
        for place in (home, home / "inside", tmp_path):
            with pytest.raises(InvalidInput, match="one holds the other"):
                graph.copy_to(place)
        with pytest.raises(InvalidInput, match="not empty"):
            graph.copy_to(tmp_path / "full")
        with pytest.raises(NotFound):
            graph.copy_to(tmp_path / "copy", branch="nowhere")
        assert (tmp_path / "full" / "letter.txt").read_text() == "mine"


def test_a_branch_handle_copies_its_branch(home: Path, tmp_path: Path) -> None:
    with og.open(home) as graph:
        assert graph.branch("dev").copy_to(tmp_path / "copy").branches == ("dev", "main")


def test_a_copy_is_made_while_others_write(home: Path, tmp_path: Path) -> None:
    """Between the tasks of the copy others write, and make and delete branches."""
    other = tmp_path / "copy"
    numbers = iter(range(1_000))
    with og.open(home) as graph, og.open(home) as writer:

        def meddle(now: og.Progress) -> None:
            if now.stage == "copy":
                name = f"w{next(numbers)}"
                writer.mutate(ADD, {"n": name})
                writer.branches.create(name)
                writer.mutate(ADD, {"n": name}, branch="dev")

        graph.copy_to(other, progress=meddle)
        assert len(names(writer)) > 2
    assert_everything(other)


def test_a_branch_that_goes_while_it_is_copied_is_not_copied(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    with og.open(home) as graph, og.open(home) as writer:

        def meddle(now: og.Progress) -> None:
            if now.stage == "copy" and "sub/2" in writer.branches.list():
                writer.branches.delete("sub/2")

        graph.copy_to(other, progress=meddle)
    with og.open(other) as copy:
        assert set(copy.branches.list()) == set(EVERYTHING) - {"sub/2"}
        for branch in copy.branches.list():
            assert names(copy, branch) == EVERYTHING[branch]


def test_a_branch_may_go_at_any_moment_while_a_copy_is_planned(home: Path) -> None:
    with og.open(home) as graph, og.open(home) as writer:
        for passes in range(1, 400, 9):
            name = f"w{passes}"
            writer.branches.create(name)
            writer.mutate(ADD, {"n": name}, branch=name)
            left = [passes]  # the watcher stays, what it does is over after one time

            def delete(_: object, name: str = name, left: list[int] = left) -> None:
                if left and (count := left.pop()):
                    if count > 1:
                        left.append(count - 1)
                    else:
                        writer.branches.delete(name)

            failpoints.watch(delete)
            found = CopyPlanner(graph._repo).plan()
            if left:
                left.clear()
                return  # there are no more passes
            assert {*found.branches} - {name} == set(EVERYTHING)
    raise AssertionError("a plan takes more passes than were tried")


def test_files_that_went_with_a_branch_are_missed(home: Path) -> None:
    with og.open(home) as graph, og.open(home) as writer:
        planner = CopyPlanner(graph._repo)
        planned = {file.path for file in planner.plan().files}
        writer.branches.delete("sub/2")
        data = {path for path in planned if "/data/" in path and not (home / path).exists()}
        assert data
        assert planner.needs(data)
