"""A real file system is shut down under writers of every kind, again and again.

Nothing that was acknowledged is lost, the graph opens for reading and for writing, a branch is
there or it is not, and the next write works.
"""

from __future__ import annotations

from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event

import pytest

import omnigraph as og
from tests import tally
from tests.faults.disks import Cut, Disk, disk, why_not
from tests.faults.harness import children
from tests.faults.power import GRAPH, SCHEMA, Chance, Ledger, Seen, Step, look, write

KINDS = ("ext4", "xfs")
STEPS_MAX = 400
DELAY_MAX_US = 4_000


def start(disk: Disk, who: str, seed: int) -> tuple[BaseProcess, Connection]:
    ours, theirs = children.Pipe(duplex=False)
    child = children.Process(target=write, args=(disk.folder, who, seed, theirs))
    child.start()
    theirs.close()
    return child, ours


def listen(pipes: list[Connection], ledger: Ledger, steps: int | None) -> None:
    """Take messages until so many steps are taken, or until nobody has more to say."""
    taken = 0
    open_pipes = list(pipes)
    while open_pipes and (steps is None or taken < steps):
        for pipe in wait(open_pipes):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                open_pipes.remove(pipe)
                continue
            taken += 1
            if isinstance(message, Step):
                ledger.take(message)
    assert steps is None or taken >= steps, "all writers ended by themselves"


def cut_once(disk: Disk, ledger: Ledger, number: int, chance: Chance) -> None:
    """Let one to three writers run, cut the power, and look at what is left."""
    writers = [
        start(disk, f"w{number}.{each}", chance.below(1 << 30))
        for each in range(1 + chance.below(3))
    ]
    pipes = [pipe for _, pipe in writers]
    listen(pipes, ledger, 1 + chance.below(STEPS_MAX))
    # Not only at the calls that we know of, but also between them.
    Event().wait(chance.below(DELAY_MAX_US) / 1e6)
    disk.cut(chance.choice(list(Cut)))
    tally.count("power cuts")
    for child, _ in writers:
        child.kill()
        child.join()
    # What was sent before the cut counts; after it nothing is acknowledged any more.
    listen(pipes, ledger, None)
    for pipe in pipes:
        pipe.close()
    disk.restart()
    ledger.judge(seen(disk, number))


def seen(disk: Disk, number: int) -> Seen:
    ours, theirs = children.Pipe(duplex=False)
    child = children.Process(target=look, args=(disk.folder, number, theirs))
    child.start()
    theirs.close()
    found = ours.recv()
    child.join()
    ours.close()
    assert isinstance(found, Seen), found
    return found


def cut_often(kind: str, folder: Path, *, seed: int, cuts: int) -> Ledger:
    if reason := why_not(kind):
        pytest.skip(reason)
    chance = Chance(seed)
    ledger = Ledger()
    with disk(kind, folder) as made:
        og.init(made.folder / GRAPH, SCHEMA).close()
        for number in range(cuts):
            try:
                cut_once(made, ledger, number, chance)
            except AssertionError as error:
                error.add_note(f"{kind}, seed {seed}, cut {number}")
                raise
    return ledger


@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_loses_nothing(kind: str, folder: Path) -> None:
    assert cut_often(kind, folder, seed=1, cuts=2).acknowledged > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 14))
@pytest.mark.parametrize("kind", KINDS)
def test_many_power_cuts_lose_nothing(kind: str, seed: int, folder: Path) -> None:
    assert cut_often(kind, folder, seed=seed, cuts=12).acknowledged > 0
