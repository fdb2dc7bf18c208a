"""Writers of every kind that run until the power goes, and what must be there afterwards.

A writer tells over a pipe what it begins and what was acknowledged. After the cut, another process
opens the graph and tells what it sees. The judgement compares both: whatever was acknowledged is
there, whatever was only begun is there as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

import omnigraph as og
from omnigraph.errors import Conflict, GraphError
from omnigraph.runtime import failpoints

T = TypeVar("T")

SCHEMA: Final = """
node Person { name: String @key  note: String? @index  age: I32? }
edge Knows: Person -> Person
"""
GRAPH: Final = "graph"
_INSERT: Final = """
query add($name: String) {
  insert Person { name: $name, note: $name, age: 1 }
  insert Knows { from: $name, to: $name }
}
"""
_PEOPLE: Final = "query people() { match { $p: Person } return { $p.name as name, $p.age as age } }"
_PAIRS: Final = "query pairs() { match { $a: Person  $a knows $b } return { $a.name as name } }"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a writer begins, or has been told to be done."""

    kind: str  # rows, update, create, delete, init or maintenance
    place: str  # the branch, or the folder of a new graph
    names: tuple[str, ...] = ()
    done: bool = False


class Chance:
    """Numbers that look random and are the same on every run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0

    def below(self, end: int) -> int:
        self._count += 1
        digest = hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()
        return int.from_bytes(digest[:8]) % end

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]


# -- writing ---------------------------------------------------------------------------------------


class Writer:
    """Writes by chance until it is killed. Its branches are its own, `main` is everybody's."""

    def __init__(self, folder: Path, who: str, seed: int, pipe: Connection) -> None:
        self._folder = folder
        self._who = who
        self._random = Chance(seed)
        self._pipe = pipe
        self._count = 0
        self._branches: list[str] = []
        self._graph = og.open(folder / GRAPH)

    def run(self) -> None:
        """Write, and go on after errors, until the pipe is closed or the process ends."""
        kinds: list[Callable[[], None]] = [
            self.mutate,
            self.mutate,
            self.load,
            self.merge,
            self.create,
            self.first_write,
            self.first_write,
            self.commit_new_branch,
            self.delete,
            self.ensure_indices,
            self.optimize,
            self.init,
        ]
        while True:
            try:
                self._random.choice(kinds)()
            except GraphError:
                # Others were first, or the disk is gone.
                continue

    def _tell(self, step: Step, act: Callable[[], object]) -> None:
        self._pipe.send(step)
        act()
        self._pipe.send(Step(step.kind, step.place, step.names, done=True))

    def _name(self) -> str:
        self._count += 1
        return f"{self._who}-{self._count}"

    def _add(self, branch: str) -> None:
        name = self._name()
        self._tell(
            Step("rows", branch, (name,)),
            lambda: self._graph.mutate(
                _INSERT, {"name": name}, branch=branch, idempotency_key=f"k-{name}"
            ),
        )

    def mutate(self) -> None:
        self._add("main")

    def load(self) -> None:
        names = tuple(self._name() for _ in range(3))
        rows = _rows(names)
        self._tell(Step("rows", "main", names), lambda: self._graph.load(rows))

    def merge(self) -> None:
        old, new = f"{self._who}-0", self._name()
        people = [{"name": old, "age": self._count}, {"name": new, "note": new}]
        source = {"Person": people, "Knows": [{"from": new, "to": new}]}
        self._tell(Step("rows", "main", (new,)), lambda: self._graph.load(source, mode="merge"))

    def create(self) -> None:
        name = f"b-{self._name()}"
        source = self._random.choice(["main", *self._branches])
        self._tell(Step("create", name), lambda: self._graph.branches.create(name, source))
        self._branches.append(name)

    def first_write(self) -> None:
        if not self._branches:
            self.create()
        self._add(self._branches[-1])

    def commit_new_branch(self) -> None:
        branch, name = f"b-{self._name()}", self._name()
        rows = _rows((name,))
        self._pipe.send(Step("create", branch))
        self._tell(
            Step("rows", branch, (name,)),
            lambda: self._graph.load(rows, branch=branch, create_from="main"),
        )
        self._pipe.send(Step("create", branch, done=True))
        self._branches.append(branch)

    def delete(self) -> None:
        if self._branches:
            name = self._branches.pop(self._random.below(len(self._branches)))
            try:
                self._tell(Step("delete", name), lambda: self._graph.branches.delete(name))
            except Conflict:
                self._pipe.send(Step("create", name, done=True))  # it stays: others stand on it
                self._branches.append(name)

    def ensure_indices(self) -> None:
        self._tell(Step("maintenance", "main"), self._graph.ensure_indices)

    def optimize(self) -> None:
        self._tell(Step("maintenance", "main"), lambda: self._graph.optimize(engine="inprocess"))

    def init(self) -> None:
        place = f"other-{self._name()}"
        self._tell(Step("init", place), lambda: og.init(self._folder / place, SCHEMA).close())


def write(folder: Path, who: str, seed: int, pipe: Connection) -> None:
    """Write until killed, telling about every call to storage. Runs in a child."""
    writer = Writer(folder, who, seed, pipe)
    failpoints.watch(lambda _: pipe.send(None))
    # Without a disk errors of any kind may come; before that, everything else must be typed, or
    # the test is told that nobody writes any more.
    with suppress(OSError, ValueError):
        writer.run()


def _rows(names: tuple[str, ...]) -> dict[str, list[dict[str, str]]]:
    return {
        "Person": [{"name": name, "note": name} for name in names],
        "Knows": [{"from": name, "to": name} for name in names],
    }


# -- looking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """The people of every branch, and the names of those with an edge."""

    branches: dict[str, frozenset[str]]
    graphs: frozenset[str]


def look(folder: Path, number: int, pipe: Connection) -> None:
    """Open everything, for reading and for writing, write once more, and tell. Runs in a child."""
    try:
        with og.open(folder / GRAPH, "r") as graph:
            before = _branches(graph)
        with og.open(folder / GRAPH) as graph:
            after = _branches(graph)
            if any(not rows <= after.get(name, frozenset()) for name, rows in before.items()):
                raise AssertionError(f"opening for writing lost what was seen: {before} {after}")
            _write_on(graph, after, number)
        pipe.send(Seen(after, frozenset(_graphs(folder))))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        pipe.send("".join(traceback.format_exception(error)))


def _branches(graph: og.Graph) -> dict[str, frozenset[str]]:
    return {name: _people(graph, name) for name in graph.branches.list()}


def _people(graph: og.Graph, branch: str) -> frozenset[str]:
    rows = graph.query(_PEOPLE, branch=branch).to_pylist()
    people = [row["name"] for row in rows if not row["name"].endswith("-0")]
    pairs = [row["name"] for row in graph.query(_PAIRS, branch=branch)]
    if sorted(people) != sorted(pairs):
        raise AssertionError(f"{branch}: {set(people) ^ set(pairs)} has one half only")
    if len(set(people)) != len(people):
        raise AssertionError(f"{branch}: somebody is there twice: {sorted(people)}")
    return frozenset(people)


def _write_on(graph: og.Graph, branches: dict[str, frozenset[str]], number: int) -> None:
    """The next write works, on some branches, and so do making and deleting a branch."""
    for branch in ["main", *sorted(branches)[-2:]]:
        name = f"after-{number}-{branch}"
        graph.mutate(_INSERT, {"name": name}, branch=branch)
        if name not in _people(graph, branch):
            raise AssertionError(f"{name} was written and is not there")
    graph.branches.create(f"probe-{number}")
    graph.branches.delete(f"probe-{number}")


def _graphs(folder: Path) -> Iterator[str]:
    """The other graphs that are there; one that is not whole can be made again."""
    for place in sorted(folder.glob("other-*")):
        try:
            og.open(place).close()
            yield place.name
        except og.errors.NotFound:
            og.init(place, SCHEMA).close()


# -- judging ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ledger:
    """What the writers have begun and been told, over all rounds."""

    rows: dict[str, set[str]] = field(default_factory=dict)  # acknowledged, by branch
    begun: dict[str, set[str]] = field(default_factory=dict)
    there: dict[str, bool | None] = field(default_factory=dict)  # None: begun, so either
    graphs: set[str] = field(default_factory=set)
    acknowledged: int = 0

    def take(self, step: Step) -> None:
        """Note one message of a writer."""
        self.acknowledged += step.done
        match step.kind:
            case "rows":
                book = self.rows if step.done else self.begun
                book.setdefault(step.place, set()).update(step.names)
            case "create":
                self.there[step.place] = True if step.done else None
            case "delete":
                self.there[step.place] = False if step.done else None
            case "init" if step.done:
                self.graphs.add(step.place)

    def judge(self, seen: Seen) -> None:
        """Compare what was acknowledged with what is there; then hold on to what is there."""
        for name, is_there in self.there.items():
            assert is_there is None or is_there == (name in seen.branches), f"{name}: {is_there}"
            self.there[name] = name in seen.branches
        for branch, names in self.rows.items():
            if branch in seen.branches:
                lost = names - seen.branches[branch]
                assert not lost, f"{branch} lost {sorted(lost)}"
        known = set().union(*self.rows.values(), *self.begun.values())
        for branch, found in seen.branches.items():
            strange = {name for name in found - known if not name.startswith("after-")}
            assert not strange, f"{branch} has {strange}, which nobody wrote"
            # What was seen once is there to stay.
            self.rows.setdefault(branch, set()).update(found)
        assert self.graphs <= seen.graphs, f"graphs are gone: {self.graphs - seen.graphs}"
