"""Years of a graph in minutes: all kinds of writes and maintenance, with a verification after each.

Two handles take turns. Snapshots, feeds, exports and copies are open while clean-ups take what
they may. Every commit that was ever made has the state that the model remembers, or it is gone
because a clean-up was allowed to take it.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import omnigraph as og
from omnigraph.errors import Conflict, Gone
from omnigraph.exec.changes.cursor import decode
from omnigraph.store import tuning
from omnigraph.types import BranchName
from tests import tally
from tests.graphs import clean
from tests.property.schema_model import (
    STEP,
    SchemaClash,
    Side,
    act,
    merged,
    shown,
    state,
)

MAIN = "main"
BRANCHES_MAX = 3
FEEDS_MAX = 2


@dataclass(slots=True)
class OpenFeed:
    """A feed at work: its pages, where it is, and who it knows to be there."""

    branch: str
    pages: Iterator[og.ChangePage]
    cursor: str
    known: set[str]


class YearsMachine(RuleBasedStateMachine):
    """Whatever is done to the graph is done to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.thresholds = tuning.tuned(trusted_head_ns=-1)  # no time passes here
        self.thresholds.__enter__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.numbers = count()
        first = og.init(self.home / "graph", schema="node T0 { name: String @key }")
        self.handles = [first, og.open(first.uri)]
        self.sides: dict[str, Side] = {MAIN: Side()}
        self.history: dict[str, Side] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.may_be_gone: set[str] = set()
        self.tags: dict[str, str] = {}
        self.snapshots: list[tuple[Any, str]] = []
        self.feeds: list[OpenFeed] = []
        self.remember(MAIN, ())

    def teardown(self) -> None:
        self.thresholds.__exit__(None, None, None)
        for feed in self.feeds:
            feed.pages.close()  # type: ignore[attr-defined]
        for handle in self.handles:
            handle.close()
        self.folder.cleanup()

    # -- the model ---------------------------------------------------------------------------------

    def graph(self, data: st.DataObject) -> og.Graph:
        """One of the two handles."""
        return data.draw(st.sampled_from(self.handles))

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.sides)))

    def commit(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.history)))

    def head(self, branch: str) -> str:
        return self.handles[0].snapshot(branch).commit

    def remember(self, branch: str, parents: tuple[str, ...]) -> None:
        """Note the newest state of a branch."""
        head = self.head(branch)
        if head not in self.history:
            self.history[head] = self.sides[branch]
            self.parents[head] = parents

    def line(self, branch: str) -> list[str]:
        """The commits of a branch along first parents, the newest first."""
        found, at = [], self.head(branch)
        while True:
            found.append(at)
            if not self.parents[at]:
                return found
            at = self.parents[at][0]

    def ancestors(self, commit: str) -> set[str]:
        found, waiting = set(), [commit]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += self.parents[at]
        return found

    def merge_bases(self, one: str, other: str) -> set[str]:
        common = self.ancestors(one) & self.ancestors(other)
        older = {each for at in common for each in self.ancestors(at) - {at}}
        return common - older

    # -- writing -----------------------------------------------------------------------------------

    @rule(data=st.data(), steps=st.lists(STEP, min_size=1, max_size=3))
    def write(self, data: st.DataObject, steps: list[Any]) -> None:
        branch = self.branch(data)
        for step in steps:
            before = self.head(branch)
            self.sides[branch] = act(self.graph(data), branch, self.sides[branch], step)
            self.remember(branch, (before,))

    @rule(data=st.data())
    def branch_off(self, data: st.DataObject) -> None:
        if len(self.sides) > BRANCHES_MAX:
            return
        name, source = f"b{next(self.numbers)}", self.branch(data)
        commit = data.draw(st.sampled_from(self.line(source)))
        try:
            self.graph(data).branches.create(name, source, at=commit)
        except Gone:
            assert commit in self.may_be_gone
            return
        self.sides[name] = self.history[commit]
        self.remember(name, (commit,))

    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        if branch == MAIN:
            return
        with suppress(Conflict):  # others were made from it
            self.graph(data).branches.delete(branch)
            del self.sides[branch]
            self.feeds = [feed for feed in self.feeds if feed.branch != branch]

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        source, into = self.branch(data), self.branch(data)
        ours, theirs = self.head(into), self.head(source)
        bases = self.merge_bases(ours, theirs)
        if source == into or len(bases) != 1:
            return
        graph = self.graph(data)
        try:
            base = self.history[bases.pop()]
            expected, is_disputed = merged(base, self.sides[into], self.sides[source])
        except SchemaClash:
            is_disputed, expected = True, self.sides[into]
        if is_disputed:
            with pytest.raises(Conflict):
                graph.branches.merge(source, into)
            assert self.head(into) == ours
            return
        graph.branches.merge(source, into)
        self.sides[into] = expected
        self.remember(into, (ours, theirs))

    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        name, commit = f"t{next(self.numbers)}", self.commit(data)
        try:
            self.graph(data).tags.create(name, at=commit)
            self.tags[name] = commit
        except Gone:
            assert commit in self.may_be_gone

    @rule(data=st.data())
    def untag(self, data: st.DataObject) -> None:
        if self.tags:
            name = data.draw(st.sampled_from(sorted(self.tags)))
            self.graph(data).tags.delete(name)
            del self.tags[name]

    # -- maintenance -------------------------------------------------------------------------------

    @rule(data=st.data(), keep=st.integers(1, 6))
    def clean_up(self, data: st.DataObject, keep: int) -> None:
        self.cleaned(self.graph(data), keep, None)
        self.look_at_everything()

    @rule(data=st.data(), keep=st.integers(1, 3))
    def clean_up_what_is_older(self, data: st.DataObject, keep: int) -> None:
        self.cleaned(self.graph(data), keep, self.commit(data))
        self.look_at_everything()

    def cleaned(self, graph: og.Graph, keep: int, since: str | None, *held: str) -> None:
        """Clean up; states from the time of a commit on stay, too."""
        needed = self.needed(keep, since) | set(held)
        since_us = None if since is None else self.times()[since]
        done = clean(graph._repo, keep=keep, since_us=since_us)
        assert [part.error for part in done.parts if part.error] == []
        tally.count("clean-ups", 1)
        self.may_be_gone |= set(self.history) - needed

    def times(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for branch in self.sides:
            for commit in self.handles[0]._repo.commits(BranchName(branch)):
                found[str(commit.id)] = commit.created_at
        return {commit: found.get(commit, 0) for commit in self.history}

    def needed(self, keep: int, since: str | None) -> set[str]:
        """The commits that a clean-up has to leave alone."""
        found = {*self.tags.values()}
        times = self.times()
        for branch in self.sides:
            line = self.line(branch)
            young = [] if since is None else [at for at in line if times[at] >= times[since]]
            found |= {*line[:keep], *young}
            for other in self.sides:
                found |= self.merge_bases(self.head(branch), self.head(other))
        for feed in self.feeds:
            found |= set(self.to_tell(feed))
        return found

    def to_tell(self, feed: OpenFeed) -> list[str]:
        """The commits whose states a feed still needs."""
        line = self.line(feed.branch)
        place = decode(feed.cursor).commit
        return line if place is None else line[: line.index(place) + 1]

    @rule(data=st.data())
    def optimize(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        before = self.head(branch)
        self.graph(data).optimize(branch=branch, engine="inprocess")
        self.remember(branch, (before,))

    @rule(number=st.integers(0, 1))
    def reopen(self, number: int) -> None:
        uri = self.handles[number].uri
        if number == 0 and self.feeds:
            return  # they end with it
        self.handles[number].close()
        self.handles[number] = og.open(uri)
        if number == 0:
            self.snapshots.clear()

    # -- reading for long --------------------------------------------------------------------------

    @rule(data=st.data())
    def take_snapshot(self, data: st.DataObject) -> None:
        commit = self.commit(data)
        try:
            self.snapshots.append((self.handles[0].snapshot(at=commit), commit))
        except Gone:
            assert commit in self.may_be_gone

    @rule(data=st.data())
    def ask_snapshot(self, data: st.DataObject) -> None:
        if self.snapshots:
            snapshot, commit = data.draw(st.sampled_from(self.snapshots))
            self.compare(lambda side: state(snapshot, side), commit)

    @rule(data=st.data(), start=st.sampled_from(["beginning", "now"]))
    def open_feed(self, data: st.DataObject, start: Any) -> None:
        if len(self.feeds) == FEEDS_MAX:
            return
        branch, graph = self.branch(data), self.handles[0]
        begin = self.line(branch)[-1 if start == "beginning" else 0]
        try:
            cursor = graph.changes.poll(start="now", branch=branch).cursor
            if start == "beginning":
                cursor = graph.changes._started(branch, "beginning", None, None).encode()
            pages = graph.changes.follow(cursor, limit=2)
        except Gone:
            assert set(self.line(branch)) & self.may_be_gone
            return
        self.feeds.append(OpenFeed(branch, pages, cursor, set(self.history[begin].rows)))

    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        if self.feeds:
            self.read_on(data.draw(st.sampled_from(self.feeds)))

    def read_on(self, feed: OpenFeed) -> None:
        """Read a page, if there is one: whoever waits for one waits for ever."""
        try:
            if not self.handles[0].changes.poll(feed.cursor, limit=1).events:
                return
        except Gone:
            # It went before the feed was opened, whose first state stayed for another reason.
            assert set(self.to_tell(feed)) & self.may_be_gone
            feed.pages.close()  # type: ignore[attr-defined]
            self.feeds.remove(feed)
            return
        page = next(feed.pages)
        feed.cursor = page.cursor
        for event in page.events:
            if event.change.operation == "delete":
                feed.known.discard(event.change.id)
            else:
                feed.known.add(event.change.id)
        if not page.more:
            assert feed.known == set(self.history[self.head(feed.branch)].rows)

    @rule(data=st.data())
    def export(self, data: st.DataObject) -> None:
        """Another handle cleans up while an export is at work."""
        commit, out = self.commit(data), io.BytesIO()
        done: list[str] = []

        def meanwhile(_: og.Progress) -> None:
            if not done:
                done.append(commit)
                self.cleaned(self.handles[1], 1, None, commit)

        try:
            self.handles[0].export(out, at=commit, format="ndjson", progress=meanwhile)
        except Gone:
            assert commit in self.may_be_gone
            return
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        found = {line["data"]["name"]: line["data"] for line in lines if "data" in line}
        assert shown(found.values()) == self.history[commit].shown()

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """Another handle cleans up while a copy is made; everything arrives."""
        done: list[str] = []
        there = self.stored()

        def meanwhile(progress: og.Progress) -> None:
            if progress.stage == "copy" and not done:
                done.append(progress.stage)
                self.cleaned(self.handles[1], 1, None, *self.history)

        place = self.home / f"copy{next(self.numbers)}"
        self.handles[0].copy_to(place, engine="inprocess", progress=meanwhile)
        with og.open(place) as found:
            assert errors(found) == []
            for branch, side in self.sides.items():
                assert state(found, side, branch=branch) == side.shown()
            for commit in there:
                side = self.history[commit]
                assert state(found, side, at=commit) == side.shown()

    def stored(self) -> list[str]:
        """The commits of live branches whose states can be asked for."""
        found = []
        with og.open(self.handles[0].uri, "r") as reader:
            for commit in {at for branch in self.sides for at in self.line(branch)}:
                with suppress(Gone):
                    state(reader, self.history[commit], at=commit)
                    found.append(commit)
        return found

    # -- comparing ---------------------------------------------------------------------------------

    def compare(self, ask: Callable[[Side], Any], commit: str) -> None:
        """A state is what it was, or gone because it may be."""
        side = self.history[commit]
        try:
            found = ask(side)
        except Gone:
            assert commit in self.may_be_gone, commit
            return
        assert found == side.shown()

    def look_at_everything(self) -> None:
        """Compare every commit that was ever made, as somebody who remembers nothing."""
        with og.open(self.handles[0].uri, "r") as reader:
            for commit in self.history:
                self.compare(lambda side, at=commit: state(reader, side, at=at), commit)  # type: ignore[misc]

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        commit, graph = self.commit(data), self.graph(data)
        self.compare(lambda side: state(graph, side, at=commit), commit)

    @invariant()
    def branches_are_right_and_everything_is_sound(self) -> None:
        for graph in self.handles:
            assert set(graph.branches.list()) == set(self.sides)
            for branch, side in self.sides.items():
                assert state(graph, side, branch=branch) == side.shown()
        assert errors(self.handles[0]) == []
        tally.count("states of the years machine that were verified", 1)


def errors(graph: og.Graph) -> list[og.VerifyFinding]:
    found = graph.verify("rows", engine="inprocess").findings
    return [each for each in found if each.severity == "error"]


class DeepYearsMachine(YearsMachine):
    """The same, for longer."""


_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TestYears = YearsMachine.TestCase
TestYears.settings = settings(
    max_examples=3, stateful_step_count=15, deadline=None, suppress_health_check=_QUIET
)
TestManyYears = pytest.mark.timeout(3_600)(pytest.mark.deep(DeepYearsMachine.TestCase))
# A step takes a moment, so a failure is told as it was found: to make it smaller takes longer.
TestManyYears.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=_QUIET,
)
