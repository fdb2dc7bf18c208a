"""The power goes at any moment of a write: every state that the disk may have kept is in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from omnigraph.core.repository import OpenMode, Repository
from omnigraph.errors import NotFound
from omnigraph.store.io.durability import link
from omnigraph.store.versions import strict_commit
from omnigraph.store.versions.files import manifest_name
from omnigraph.types import BranchName
from tests import tally
from tests.faults import replay, worlds
from tests.faults.harness import Lab
from tests.faults.replay import Recorder
from tests.faults.worlds import ACTIONS, DEV, PERSON, Action, State

GONE = BranchName("gone")


def _doomed(repo: Repository) -> None:
    repo.create_branch(GONE)
    worlds.add(repo, {PERSON: ("g",)}, branch=GONE)


def _delete(repo: Repository) -> None:
    if GONE in repo.branches.list():
        repo.delete_branch(GONE)


WRITES: Mapping[str, Action] = {**ACTIONS, "branch_delete": Action(run=_delete, prepare=_doomed)}
# The ordinary suite knows the steps of large merges from others.
DAILY = sorted(name for name in WRITES if not name.startswith("large_"))
# How many states of each write the ordinary suite looks at.
FEW = 4


class Recorded:
    """One write, as it happened: what readers saw before and after it, and every file."""

    def __init__(self, lab: Lab, action: str) -> None:
        self.root = lab.copy(lab.template("base", worlds.make))
        repo = worlds.open_world(self.root, durable=True)
        if WRITES[action].has_set_up:
            WRITES[action].set_up(repo)
        self.before = worlds.state(repo)
        self.recorder = Recorder(self.root)
        repo = worlds.open_world(self.root, durable=True)
        self.recorder.record(lambda: WRITES[action].run(repo))
        self.after = worlds.state(worlds.open_world(self.root))


def judge(root: Path, before: State, after: State, *, acknowledged: bool) -> None:
    """Open for reading and for writing; nothing in between is seen, and the next write works."""
    allowed = (after,) if acknowledged else (before, after)
    trace = worlds.trace(root)
    assert worlds.state(worlds.open_world(root, OpenMode.READ_ONLY)) in (before, after)
    assert worlds.trace(root) == trace
    repo = worlds.open_world(root)
    assert worlds.state(repo) in allowed
    worlds.assert_in_order(repo)
    assert repo.set_aside() == (), "set_aside"
    for branch in repo.branches.list():
        worlds.add(repo, {PERSON: ("next",)}, branch=branch)
        assert "next" in worlds.rows_of(repo, PERSON, branch)
    if DEV not in repo.branches.list():
        repo.create_branch(DEV)
        worlds.add(repo, {PERSON: ("d",)}, branch=DEV)
    worlds.assert_in_order(repo)


def replay_all(recorder: Recorder, check: Callable[[bool], None], *, few: int | None = None) -> int:
    """Check the states of a write: all of them, or a few that are spread over all."""
    states = list(recorder.states())
    step = 1 if few is None else max(1, len(states) // few)
    for number, (state, is_last) in enumerate(states):
        if number % step and number != len(states) - 1:
            continue
        replay.restore(state, recorder.root)
        tally.count("states that a disk may have kept")
        try:
            check(is_last)
        except BaseException as error:
            error.add_note(f"state {number} of {len(states)}: {_told(state, states[-1][0])}")
            raise
    return len(states)


def _told(state: replay.State, last: replay.State) -> str:
    """How a state differs from the last one."""

    def short(content: bytes | None) -> str:
        digest = "directory" if content is None else hashlib.sha256(content).hexdigest()[:6]
        return f"{digest}/{len(content or b'')}"

    lines = [f"- {path} {short(content)}" for path, content in sorted(last - state, key=str)]
    lines += [f"+ {path} {short(content)}" for path, content in sorted(state - last, key=str)]
    return "\n".join(lines)


@pytest.mark.parametrize("action", DAILY)
def test_what_a_disk_may_have_kept_is_in_order(lab: Lab, action: str) -> None:
    made = Recorded(lab, action)
    assert made.before != made.after or action == "optimize"
    replay_all(
        made.recorder,
        lambda last: judge(made.root, made.before, made.after, acknowledged=last),
        few=FEW,
    )


@pytest.mark.deep
@pytest.mark.parametrize("action", sorted(WRITES))
def test_everything_a_disk_may_have_kept_is_in_order(lab: Lab, action: str) -> None:
    made = Recorded(lab, action)
    states = replay_all(
        made.recorder,
        lambda last: judge(made.root, made.before, made.after, acknowledged=last),
    )
    assert states > len(made.recorder.moments) // 2


def _judge_init(root: Path, acknowledged: bool) -> None:
    try:
        repo = worlds.open_world(root)
    except NotFound:
        assert not acknowledged
        repo = worlds.begin(root)
    worlds.add(repo, {PERSON: ("p",)})
    worlds.assert_in_order(worlds.open_world(root))


@pytest.mark.parametrize("few", [12, pytest.param(None, marks=pytest.mark.deep)])
def test_a_graph_is_there_or_can_be_made(ramdisk: Path, few: int | None) -> None:
    root = ramdisk / f"graph-{few}"
    root.mkdir()
    recorder = Recorder(root)
    recorder.record(lambda: worlds.begin(root, durable=True))
    replay_all(recorder, lambda last: _judge_init(root, last), few=few)


# -- the recorder itself ---------------------------------------------------------------------------


def test_the_recorder_finds_a_name_that_comes_before_its_content(lab: Lab) -> None:
    """Without syncs everything is open, and states turn up that are not in order."""
    root = lab.copy(lab.template("base", worlds.make))
    recorder = Recorder(root)
    repo = worlds.open_world(root, durable=False)
    recorder.record(lambda: ACTIONS["mutation"].run(repo))
    newest = f"__manifest/_versions/{manifest_name(repo.snapshot().manifest_version)}"
    contents = {dict(state).get(newest) for state, _ in recorder.states()}
    assert None in contents
    assert b"" in contents
    assert len(contents) == 4


@pytest.mark.deep
def test_a_version_that_is_named_before_its_content_is_noticed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same steps in another order: the replay is not satisfied with that."""

    def place(self: strict_commit._LocalPlacer, folder: str, staging: str, final: str) -> None:
        source, target = self._root / folder / staging, self._root / folder / final
        link(source, target)
        self._files.sync_contents([source])
        self._files.sync_names([target])

    monkeypatch.setattr(strict_commit._LocalPlacer, "place", place)
    made = Recorded(lab, "mutation")
    with pytest.raises(AssertionError, match="set_aside"):
        replay_all(
            made.recorder,
            lambda last: judge(made.root, made.before, made.after, acknowledged=last),
        )


def test_the_states_of_a_few_steps_are_exactly_those_that_are_legal(tmp_path: Path) -> None:
    from omnigraph.store.io.objects import LocalBackend  # noqa: PLC0415

    root = tmp_path / "root"
    root.mkdir()
    (root / "old").write_bytes(b"old!")
    backend = LocalBackend(root, durable=True)
    recorder = Recorder(root)

    def run() -> None:
        (root / "bare").write_bytes(b"bare")
        backend.put("old", b"new!")

    recorder.record(run)
    seen = {
        tuple(sorted((path, content) for path, content in state if ".og-tmp" not in path))
        for state, _ in recorder.states()
    }
    bare = [(), (("bare", b""),), (("bare", b"ba"),), (("bare", b"bare"),)]
    expected = {(*each, ("old", old)) for each in bare for old in (b"old!", b"new!")}
    assert seen == expected
