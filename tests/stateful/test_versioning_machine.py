"""Random schemas and histories on several branches, with merges in all directions.

Branches are written, have their schemas changed, are merged, crossed, reverted, reset, renamed and
made anew, while tables are folded and cleaned up. Everything depends on a seed alone; a failure
tells it, and the steps that led there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import Conflict, ConstraintViolated, Gone, InvalidInput
from omnigraph.exec import tuning
from omnigraph.lang.schema import format_schema, lint_schema
from omnigraph.lang.schema.render import schema_text
from omnigraph.runtime.ids import UlidIds
from tests import tally
from tests.dice import Dice
from tests.graphs import clean
from tests.stateful.branch_states import (
    State,
    applied,
    baseline,
    catalog_of,
    check_rules,
    same,
    state,
)
from tests.stateful.drawn_schemas import DrawnSchemas, parsed
from tests.stateful.drawn_writes import DrawnWrites
from tests.stateful.merge_checks import MergeChecks

MAIN = "main"
BRANCHES_MAX = 4
STEPS = 12
SIDES: tuple[Any, ...] = (None, "ours", "theirs")
MODES: tuple[Any, ...] = (*["merge"] * 8, "append", "overwrite", "overwrite")


@dataclass(frozen=True)
class Mark:
    """A place in the feed of a branch, the state that a reader has there, and its schema."""

    branch: str
    cursor: str
    state: State
    schema: str


class VersioningMachine:
    """Does whatever the dice say to a graph, and checks what comes out."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice, self.folder = Dice(seed), folder
        self.steps: list[str] = []
        self.schemas, self.writes = DrawnSchemas(self.dice), DrawnWrites(self.dice)
        self.changes_schemas = self.dice.is_so(0.5)
        self.branches, self.marks, self.numbers = [MAIN], list[Mark](), count()
        text = self.first_schema()
        self.note("seed", seed, text)
        self.graph = og.init(str(folder / "graph"), schema=text)

    def first_schema(self) -> str:
        """One that the checker accepts."""
        while True:
            text = format_schema(self.schemas.schema())
            if lint_schema(text)[0] is not None:
                return text

    def note(self, *what: Any) -> None:
        self.steps.append(" ".join(map(str, what)))

    def run(self) -> None:
        for _ in range(2 + self.dice.below(3)):
            self.load(MAIN)
        for _ in range(self.dice.one([1, 1, 2, 3])):
            self.branch_off()
        for _ in range(STEPS):
            what = self.dice.one(STEP_KINDS)
            branch = self.dice.one(self.branches)
            with suppress(Gone):  # a clean-up took what a step asks for
                what(self, branch)
            # The feed of a branch starts anew with another schema.
            self.marks = [mark for mark in self.marks if self.schema(mark.branch) == mark.schema]
            tally.count("steps of the versioning machine", 1)
        self.verify(MAIN)

    def schema(self, branch: str) -> str:
        return schema_text(catalog_of(self.graph, branch))

    def state(self, branch: str) -> State:
        return state(self.graph, branch)

    # -- writing -----------------------------------------------------------------------------------

    def write(self, what: str, act: Callable[[], object]) -> None:
        """Do what the rules may refuse."""
        self.note(what)
        try:
            act()
        except (ConstraintViolated, InvalidInput) as error:
            self.note("  refused:", str(error)[:200])

    def load(self, branch: str) -> None:
        mode = self.dice.one(MODES)
        rows = self.writes.rows(catalog_of(self.graph, branch), self.state(branch), mode)
        terms: Any = {"cascade": True} if mode == "overwrite" and self.dice.is_so(0.7) else {}
        terms |= {"mode": mode, "branch": branch}
        self.write(f"load {rows} {terms}", lambda: self.graph.load(rows, **terms))

    def move(self, branch: str) -> None:
        rows = self.writes.moved(catalog_of(self.graph, branch), self.state(branch))
        if rows:
            self.write(
                f"move {branch} {rows}",
                lambda: self.graph.load(rows, mode="merge", branch=branch),
            )

    def statements(self, branch: str) -> list[str]:
        return self.writes.statements(catalog_of(self.graph, branch), self.state(branch))

    def mutate(self, branch: str) -> None:
        for text in self.statements(branch):
            query = f"query q() {{ {text} }}"
            self.write(
                f"mutate {branch} {text}",
                lambda query=query: self.graph.mutate(query, branch=branch),  # type: ignore[misc]
            )

    def transact(self, branch: str) -> None:
        texts = self.statements(branch)
        rows = self.writes.rows(catalog_of(self.graph, branch), self.state(branch), "merge")

        def act() -> None:
            with self.graph.transaction(branch=branch) as writing:
                for text in texts:
                    writing.mutate(f"query q() {{ {text} }}")
                writing.load(rows, mode="merge")

        self.write(f"transaction {branch} {texts} {rows}", act)

    def change_schema(self, branch: str) -> None:
        if not self.changes_schemas:
            return
        text = format_schema(self.schemas.changed(parsed(self.schema(branch))))
        self.write(
            f"schema {branch} {text}",
            lambda: self.graph.schema.apply(text, branch=branch),
        )

    def optimize(self, branch: str) -> None:
        self.note("optimize", branch)
        self.graph.optimize(branch=branch, engine="inprocess")

    def index(self, branch: str) -> None:
        self.note("index", branch)
        self.graph.ensure_indices(branch=branch)

    # -- branches ----------------------------------------------------------------------------------

    def branch_off(self, branch: str = MAIN) -> None:
        if len(self.branches) < BRANCHES_MAX:
            name = f"b{next(self.numbers)}"
            self.note("branch", name, branch)
            self.graph.branches.create(name, branch)
            self.branches.append(name)

    def delete_branch(self, branch: str) -> None:
        if branch == MAIN or len(self.branches) == 2:
            return
        with suppress(Conflict):  # others were made from it
            self.graph.branches.delete(branch)
            self.note("delete branch", branch)
            self.branches.remove(branch)
            self.marks = [mark for mark in self.marks if mark.branch != branch]

    def rename_branch(self, branch: str) -> None:
        if branch == MAIN:
            return
        name = f"b{next(self.numbers)}"
        self.note("rename", branch, name)
        self.graph.branches.rename(branch, name)
        self.branches[self.branches.index(branch)] = name
        self.marks = [mark for mark in self.marks if mark.branch != branch]

    def other(self, branch: str) -> str:
        return self.dice.one([each for each in self.branches if each != branch])

    def merge(self, branch: str) -> None:
        source = self.other(branch)
        if self.dice.is_so(0.4):
            self.cross(branch, source)
        for each in (branch, source, branch, source):
            self.dice.one(BETWEEN_MERGES)(self, each)
        checks = MergeChecks(self.graph, self.folder, self.dice, self.note)
        try:
            plan = checks.check(source, branch)
        finally:
            checks.forget_copies()
        if plan is not None:
            side = self.dice.one(SIDES[1:]) if plan.conflicts else None
            self.merged(source, branch, side)

    def merged(self, source: str, into: str, side: Any) -> None:
        self.note("merge", source, into, side)
        with suppress(Conflict):
            self.graph.branches.merge(source, into, resolve=side)
        check_rules(catalog_of(self.graph, into), self.state(into))

    def cross(self, branch: str, other: str) -> None:
        """Merge each of two branches into the other one, as it was before."""
        before = f"before{next(self.numbers)}"
        self.load(other)
        self.mutate(branch)
        self.graph.branches.create(before, branch)
        side = self.dice.one(SIDES[1:])
        self.merged(other, branch, side)
        self.merged(before, other, self.dice.one(SIDES[1:]))
        with suppress(Conflict):
            self.graph.branches.delete(before)

    # -- looking back ------------------------------------------------------------------------------

    def mark(self, branch: str) -> None:
        cursor = self.graph.changes.baseline(branch=branch).cursor
        here = self.state(branch)
        same(baseline(self.graph, branch), here, "a baseline of the feed")
        self.marks.append(Mark(branch, cursor, here, self.schema(branch)))

    def replay(self, _: str) -> None:
        """From a place in its feed on, a reader gets the present state."""
        if not self.marks:
            return
        mark = self.dice.one(self.marks)
        cursor, found, limit = mark.cursor, mark.state, self.dice.one([1, 2, 5, 1_000])
        while True:
            page = self.graph.changes.poll(cursor, limit=limit, branch=mark.branch)
            found = applied((event.change for event in page.events), found)
            cursor = page.cursor
            if not page.more:
                break
        same(found, self.state(mark.branch), "the feed")

    def commit(self, branch: str) -> str:
        return self.dice.one(self.graph.commits.list(branch)).id

    def reset(self, branch: str) -> None:
        if branch == MAIN:
            return
        commit = self.commit(branch)
        self.note("reset", branch, commit)
        plan = self.graph.branches.reset(branch, commit, dry_run=True)
        assert plan.counts == self.graph.branches.reset(branch, commit).counts
        assert self.graph.diff(branch, commit).is_empty

    def revert(self, branch: str) -> None:
        commit, side = self.commit(branch), self.dice.one(SIDES)
        self.note("revert", branch, commit, side)
        with suppress(Conflict, InvalidInput, ConstraintViolated):
            self.graph.branches.revert(commit, branch, resolve=side)
        check_rules(catalog_of(self.graph, branch), self.state(branch))

    def diff(self, branch: str) -> None:
        other = self.other(branch)
        changes = list(self.graph.diff(branch, other))
        if catalog_of(self.graph, branch) == catalog_of(self.graph, other):
            same(applied(changes, self.state(branch)), self.state(other), "a diff")

    # -- maintenance -------------------------------------------------------------------------------

    def reopen(self, _: str) -> None:
        before = self.states()
        self.graph.close()
        self.graph = og.open(self.graph.uri)
        assert self.states() == before

    def clean_up(self, _: str) -> None:
        keep, before = self.dice.one([1, 1, 2, 4]), self.states()
        self.note("clean up", keep)
        clean(self.graph._repo, keep=keep)
        assert self.states() == before
        self.verify(MAIN)

    def states(self) -> list[State]:
        return [self.state(branch) for branch in self.branches]

    def verify(self, _: str) -> None:
        """Every table of every branch is sound."""
        found = self.graph.verify("rows", engine="inprocess").findings
        assert [each for each in found if each.severity == "error"] == []


Machine = VersioningMachine
BETWEEN_MERGES = (*[Machine.load] * 3, *[Machine.mutate] * 3, Machine.move, Machine.change_schema)
STEP_KINDS: tuple[Callable[[VersioningMachine, str], None], ...] = (
    *[Machine.load] * 3,
    *[Machine.mutate] * 3,
    *[Machine.change_schema] * 2,
    *(Machine.transact, Machine.move, Machine.optimize, Machine.index),
    *[Machine.merge] * 7,
    *(Machine.branch_off, Machine.delete_branch, Machine.rename_branch),
    *(Machine.mark, Machine.mark, Machine.replay, Machine.replay),
    *(Machine.reset, Machine.revert, Machine.diff, Machine.reopen, Machine.clean_up),
)


def check(seed: int, folder: Path) -> None:
    fast_forward_rows = 1 if Dice(seed).is_so(0.3) else 50_000
    home = folder / UlidIds().new()
    home.mkdir()
    machine = VersioningMachine(seed, home)
    try:
        with tuning.tuned(fast_forward_rows_min=fast_forward_rows):
            machine.run()
    except BaseException as error:
        error.add_note("\n".join(machine.steps))
        raise
    finally:
        machine.graph.close()


SEEDS = st.integers(0, 1 << 32)


# A smaller seed is no smaller example, so none is looked for.
@given(seed=SEEDS)
@settings(max_examples=5, deadline=None, phases=(Phase.generate,))
def test_versions_are_what_was_written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(seed, tmp_path_factory.mktemp("versions"))


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@given(seed=SEEDS)
@settings(max_examples=200, deadline=None, phases=(Phase.generate,))
def test_many_versions_are_what_was_written(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(seed, tmp_path_factory.mktemp("versions"))
