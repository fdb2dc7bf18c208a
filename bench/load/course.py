"""Measuring: contenders take turns, each in a process of its own, on an empty place every time."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.load.client import Client, ContenderFailed, Sample
from bench.load.figures import Measured
from bench.load.places import Place
from bench.query.places import home

ROUNDS: Final = 3
Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Somebody who takes part.

    Attributes:
        name: How the tables call it.
        call: The function `module:function` that prepares a pass.
        arguments: What it is given, besides the `target` that it writes to.
        counts: How many rows there must be afterwards, by type.
        rows: How many rows a pass moves.
        bytes: How many bytes they are; None: what was written.
        warm: Other arguments for a pass beforehand that does not count.
        base: What the target holds at first, if anything: a copy of this folder.
        peer: Runs in the environment of the peers.
        fresh: Every pass in a new process, timed from its start.
        rounds: Takes part in so many rounds only.
        ours: Is it this graph?
    """

    name: str
    call: str
    arguments: Mapping[str, Any]
    counts: Mapping[str, int]
    rows: int = 0
    bytes: int | None = 0
    warm: Mapping[str, Any] | None = None
    base: Path | None = None
    peer: bool = False
    fresh: bool = False
    rounds: int | None = None
    ours: bool = False


@dataclass(slots=True)
class _Runner:
    """How an entry does, while it is measured."""

    entry: Entry
    client: Client | None = None
    samples: list[Sample] = field(default_factory=list)
    note: str = ""

    def measured(self) -> Measured:
        size = self.entry.bytes
        if size is None:
            size = int(self.samples[-1].about.get("bytes", 0)) if self.samples else 0
        return Measured(
            name=self.entry.name,
            samples=() if self.note else tuple(self.samples),
            rows=self.entry.rows,
            bytes=size,
            ours=self.entry.ours,
            whole=self.entry.fresh,
            note=self.note,
        )


class Course:
    """Where contenders run."""

    def __init__(self, place: Place, say: Say, *, peers: bool) -> None:
        """Without peers, those who need them are left out."""
        self.place = place
        self.say = say
        self._peers = peers
        self._dice = random.Random(1)
        self._number = 0

    def run(self, entries: Sequence[Entry], rounds: int = ROUNDS) -> dict[str, Measured]:
        """Let all of them run in every round, in shuffled order."""
        runners = [_Runner(entry) for entry in entries]
        with ExitStack() as stack:
            for runner in runners:
                self._enter(runner, stack)
            for number in range(rounds):
                due = [item for item in runners if number < (item.entry.rounds or rounds)]
                self._dice.shuffle(due)
                for runner in due:
                    if not runner.note:
                        self._turn(runner)
        return {runner.entry.name: runner.measured() for runner in runners}

    def once(self, entry: Entry) -> None:
        """Do something that is not measured; it must succeed."""
        with self._client(entry) as client:
            done = client.measure(entry.call, entry.arguments)
        _check(entry, done)

    def keep(self, name: str) -> Path:
        """An empty place that lasts to the end of the run."""
        folder = self.place.kept / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def copy(self, here: Path, there: Path) -> None:
        """A copy of a folder. Nobody changes a file in place, so names are enough of one."""
        shutil.copytree(here, there, copy_function=os.link)

    def clear(self) -> None:
        """Remove what a run needed."""
        shutil.rmtree(self.place.scratch, ignore_errors=True)
        shutil.rmtree(self.place.kept, ignore_errors=True)

    def _enter(self, runner: _Runner, stack: ExitStack) -> None:
        entry = runner.entry
        if entry.peer and not self._peers:
            runner.note = "not installed"
            return
        if entry.fresh:
            return
        self.say(f"{entry.name}: warming up")
        runner.client = stack.enter_context(self._client(entry))
        if entry.warm is not None:
            warm = replace(entry, arguments=entry.warm)
            self._guarded(runner, lambda: self._pass(warm, runner.client))

    def _turn(self, runner: _Runner) -> None:
        entry = runner.entry

        def turn() -> None:
            if entry.fresh:
                with self._client(entry) as client:
                    sample = self._pass(entry, client)
            else:
                sample = self._pass(entry, runner.client)
            _check(entry, sample)
            runner.samples.append(sample)
            taken = sample.wall_seconds if entry.fresh else sample.seconds
            self.say(f"{entry.name}: {taken:.3g} s, {sample.cpu_seconds:.3g} s of processor")

        self._guarded(runner, turn)

    def _guarded(self, runner: _Runner, call: Callable[[], object]) -> None:
        try:
            call()
        except ContenderFailed as failure:
            runner.note = str(failure).strip().splitlines()[-1]
            self.say(f"{runner.entry.name}: left out: {failure}")

    def _pass(self, entry: Entry, client: Client | None) -> Sample:
        assert client is not None
        self._number += 1
        target = self.place.scratch / f"{self._number}"
        shutil.rmtree(self.place.scratch, ignore_errors=True)
        self.place.scratch.mkdir(parents=True)
        if entry.base is not None:
            self.copy(entry.base, target)
        # What others left to be written must not be on this one's account.
        os.sync()
        return client.measure(entry.call, {"target": str(target), **entry.arguments})

    def _client(self, entry: Entry) -> Client:
        log = self.place.logs / f"{entry.call.rpartition('.')[2].replace(':', '-')}.txt"
        return Client(log, peer=entry.peer, cache=home() / "load-home")


def _check(entry: Entry, sample: Sample) -> None:
    """Nobody is timed on something else than the others."""
    made = {name: rows for name, rows in sample.counts.items() if rows}
    if entry.counts and made != dict(entry.counts):
        raise ContenderFailed(f"{entry.name} made {made}, not {dict(entry.counts)}")
