"""A graph at another place than the one that its branches recorded."""

import os
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.errors import Code, Corrupt
from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import Refuse

SCHEMA = "node Person { name: String @key }\nnode Place { name: String @key }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"


def names(graph: og.Graph, branch: str = "main") -> list[str]:
    return [row["name"] for row in graph.query(ALL, branch=branch)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph with a branch, a branch of that branch, and one that no write has touched."""
    place = tmp_path / "home"
    with og.init(place, SCHEMA) as graph:
        graph.mutate(ADD, {"n": "Ada"})
        graph.branches.create("dev")
        graph.mutate(ADD, {"n": "Bo"}, branch="dev")
        graph.branches.create("dev2", "dev")
        graph.mutate(ADD, {"n": "Cy"}, branch="dev2")
        graph.branches.create("idle")
    return place


def moved(home: Path, how: str) -> Path:
    other = home.parent / "other"
    if how == "copied":
        shutil.copytree(home, other)
    else:
        home.rename(other)
    return other


@pytest.mark.parametrize("how", ["copied", "moved"])
@pytest.mark.parametrize("branch", ["dev", "dev2", "idle"])
def test_a_branch_is_refused_elsewhere(home: Path, how: str, branch: str) -> None:
    other = moved(home, how)
    with og.open(other) as graph:
        for use in (
            lambda: graph.query(ALL, branch=branch),
            lambda: graph.mutate(ADD, {"n": "Di"}, branch=branch),
            lambda: graph.branches.create("more", branch),
        ):
            with pytest.raises(Corrupt) as caught:
                use()
            assert caught.value.code is Code.GRAPH_MOVED
            assert caught.value.details["recorded"] == str(home)
            assert caught.value.details["root"] == str(other)
            assert str(home) in str(caught.value)
            assert str(other) in str(caught.value)


@pytest.mark.parametrize("how", ["copied", "moved"])
def test_main_and_new_branches_work_elsewhere(home: Path, how: str) -> None:
    other = moved(home, how)
    with og.open(other) as graph:
        graph.mutate(ADD, {"n": "Di"})
        graph.branches.create("new")
        graph.mutate(ADD, {"n": "Ed"}, branch="new")
        assert names(graph) == ["Ada", "Di"]
        assert graph.branches.list() == ["dev", "dev2", "idle", "main", "new"]
    with og.open(other, "r") as graph:
        assert names(graph, "new") == ["Ada", "Di", "Ed"]
    if how == "copied":
        with og.open(home) as graph:
            assert [names(graph), names(graph, "dev2")] == [["Ada"], ["Ada", "Bo", "Cy"]]


def test_moving_back_mends_it(home: Path) -> None:
    other = moved(home, "moved")
    og.open(other).close()
    other.rename(home)
    with og.open(home) as graph:
        assert names(graph, "dev2") == ["Ada", "Bo", "Cy"]


def test_a_copy_inside_the_place_it_was_recorded_below(home: Path, tmp_path: Path) -> None:
    """`home/..` holds a copy: what it recorded lies below it, and is still another graph."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    with og.open(tmp_path) as graph:
        assert names(graph) == ["Ada"]
        with pytest.raises(Corrupt, match="moved or copied"):
            graph.query(ALL, branch="dev")


@pytest.mark.parametrize("how", ["link to it", "made through a link", "slash", "dots", "relative"])
def test_other_spellings_of_the_same_place_are_that_place(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    spelling = str(home)
    if how == "link to it":
        (tmp_path / "link").symlink_to(home)
        spelling = str(tmp_path / "link")
    elif how == "made through a link":
        # What was recorded is reachable by a link alone.
        home.rename(tmp_path / "real")
        home.symlink_to(tmp_path / "real")
        spelling = str(tmp_path / "real")
    elif how == "slash":
        spelling = f"file://{home}/"
    elif how == "dots":
        spelling = f"{home}/../home/."
    else:
        monkeypatch.chdir(tmp_path)
        spelling = "home"
    with og.open(spelling) as graph:
        assert names(graph, "dev2") == ["Ada", "Bo", "Cy"]
        graph.mutate(ADD, {"n": "Di"}, branch="dev")
        assert names(graph, "dev") == ["Ada", "Bo", "Di"]
    with og.open(home) as graph:
        assert names(graph, "dev") == ["Ada", "Bo", "Di"]


def test_looking_where_a_fork_was_recorded_costs_no_storage_call(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats: list[object] = []
    samefile = os.path.samefile

    def counted(left: object, right: object) -> bool:
        stats.append(left)
        return samefile(str(left), str(right))

    monkeypatch.setattr(os.path, "samefile", counted)
    with og.open(home, "r") as graph, telemetry.counting() as counts:
        names(graph, "dev2")
    assert not stats  # spelled alike: there is nothing to look for
    assert counts.snapshot()["table.open"] == 1  # its table; nothing for the check

    (home.parent / "link").symlink_to(home)
    with og.open(home.parent / "link", "r") as graph:
        names(graph, "dev2")
        names(graph, "dev")
    assert len(stats) == 1  # once for the place, however many forks there are


def test_what_a_dead_writer_left_on_a_branch_does_not_close_main(home: Path) -> None:
    with og.open(home) as graph, failpoints.armed({Fp.FORGET: Refuse()}):
        graph.mutate(ADD, {"n": "Di"}, branch="dev")
    assert list((home / "__recovery").glob("*.json"))
    other = moved(home, "copied")
    with og.open(other) as graph:
        graph.mutate(ADD, {"n": "Ed"})
        assert names(graph) == ["Ada", "Ed"]
    assert list((other / "__recovery").glob("*.json"))
    with og.open(home) as graph:
        assert "Di" in names(graph, "dev")


# -- relocating --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["copied", "moved"])
def test_the_refusal_names_what_makes_the_branch_work(home: Path, how: str) -> None:
    other = moved(home, how)
    with og.open(other) as graph, pytest.raises(Corrupt) as caught:
        names(graph, "dev")
    assert f"`omnigraph relocate {other}`" in str(caught.value)
    planned = og.relocate(other, dry_run=True)
    assert planned.recorded == (str(home),)
    with og.open(other) as graph, pytest.raises(Corrupt):
        names(graph, "dev")
    assert og.relocate(other) == planned
    with og.open(other) as graph:
        assert names(graph, "dev2") == ["Ada", "Bo", "Cy"]
        assert names(graph, "idle") == ["Ada"]
        graph.mutate(ADD, {"n": "Di"}, branch="dev2")
        graph.mutate(ADD, {"n": "Ed"}, branch="idle")
        graph.branches.create("dev3", "dev2")
        graph.mutate(ADD, {"n": "Fy"}, branch="dev3")
        graph.branches.merge("dev3", "main")
        assert names(graph) == ["Ada", "Bo", "Cy", "Di", "Fy"]
        older = graph.commits.list("dev2")[1].id
        assert [row["name"] for row in graph.query(ALL, branch="dev2", at=str(older))] == [
            "Ada",
            "Bo",
            "Cy",
        ]
        graph.branches.delete("idle")
        graph.optimize()
    again = og.relocate(other)
    assert (again.changed, again.recorded) == (0, ())


def test_a_relocated_copy_never_reads_the_original(home: Path) -> None:
    other = moved(home, "copied")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    og.relocate(other)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    shutil.rmtree(home)
    with og.open(other) as graph:
        assert [names(graph, name) for name in ("main", "dev", "dev2", "idle")] == [
            ["Ada"],
            ["Ada", "Bo"],
            ["Ada", "Bo", "Cy"],
            ["Ada"],
        ]


def test_a_copy_that_shares_files_by_links_leaves_the_original_alone(home: Path) -> None:
    other = home.parent / "other"
    shutil.copytree(home, other, copy_function=os.link)
    og.relocate(other)
    with og.open(home) as graph:
        assert names(graph, "dev2") == ["Ada", "Bo", "Cy"]


def test_branches_of_two_moves_are_relocated_together(home: Path, tmp_path: Path) -> None:
    other = moved(home, "moved")
    with og.open(other) as graph:
        graph.branches.create("new")
        graph.mutate(ADD, {"n": "Di"}, branch="new")
    third = tmp_path / "a" / "third"
    third.parent.mkdir()
    other.rename(third)
    assert og.relocate(third).recorded == tuple(sorted([str(home), str(other)]))
    with og.open(third) as graph:
        assert names(graph, "new") == ["Ada", "Di"]
        assert names(graph, "dev2") == ["Ada", "Bo", "Cy"]


def test_at_its_own_place_there_is_nothing_to_relocate(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert og.relocate(home).changed == 0
    assert og.relocate(tmp_path / "link").changed == 0


def test_a_damaged_version_of_a_branch_is_named(home: Path) -> None:
    other = moved(home, "moved")
    victim = next((other / "__manifest" / "tree" / "dev" / "_versions").glob("*.manifest"))
    data = bytearray(victim.read_bytes())
    data[-20] ^= 0xFF
    victim.write_bytes(data)
    with pytest.raises(Corrupt) as caught:
        og.relocate(other)
    assert caught.value.details["path"] == str(victim.relative_to(other))


def test_what_is_no_graph_is_not_relocated(tmp_path: Path) -> None:
    with pytest.raises(og.errors.NotFound):
        og.relocate(tmp_path)


def test_a_write_that_stopped_on_a_branch_is_settled_after_relocating(home: Path) -> None:
    with og.open(home) as graph, failpoints.armed({Fp.FORGET: Refuse()}):
        graph.mutate(ADD, {"n": "Di"}, branch="dev")
    other = moved(home, "moved")
    og.relocate(other)
    with og.open(other) as graph:
        assert names(graph, "dev") == ["Ada", "Bo", "Di"]
        graph.recover()
    assert not list((other / "__recovery").glob("*.json"))
