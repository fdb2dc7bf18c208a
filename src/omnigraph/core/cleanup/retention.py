"""Retention: decides which states of a graph stay. Pure and total.

A state is named by the version of a manifest that published it. What stays is what can
still be named: the head of each branch, its newest commits as the policy says, tags, merge bases,
and what others hold while they read it. Everything else goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from omnigraph.core import tuning
from omnigraph.types import BranchName

RECOVERY: Final = "recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The commits that stay: the newest of each branch, and those that are young enough.

    Attributes:
        keep: How many of the newest commits of each branch stay; at least 1.
        since_us: Commits that were made at this time or later stay; None for none.
    """

    keep: int
    since_us: int | None = None

    def holds(self, place: int, created_at: int) -> bool:
        """True if the commit at a place of its branch, counted from its head, stays."""
        return place < self.keep or (self.since_us is not None and created_at >= self.since_us)


@dataclass(frozen=True, slots=True, order=True)
class StateAt:
    """A state of the graph: a version of the manifest, on main or on the fork of a branch."""

    fork: str  # of the manifest; empty for main
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAt:
    """A commit, and the state that it published; an earlier clean-up may have taken that."""

    state: StateAt
    created_at: int
    kind: str
    is_stored: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The newest first-parent commits of a branch, its head first."""

    branch: BranchName
    commits: tuple[CommitAt, ...]


@dataclass(frozen=True, slots=True)
class NeededState:
    """A state that is needed; with `onward`, all later ones of its branch, too."""

    branch: BranchName
    state: StateAt
    onward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that retention looks at.

    Attributes:
        lines: Of each branch at least as many commits as may have to stay.
        named: The states of tags and of merge bases.
        held: What running exports, open feeds and branches in the making need.
        now_us: The time.
    """

    lines: tuple[Line, ...]
    named: frozenset[StateAt]
    held: tuple[NeededState, ...]
    now_us: int


@dataclass(frozen=True, slots=True)
class StateSpan:
    """States of one manifest that follow each other: every commit from the oldest to the newest."""

    oldest: StateAt
    newest: StateAt


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """The states that stay.

    Attributes:
        spans: Runs of states that follow each other.
        states: All states, those of the spans included.
    """

    spans: frozenset[StateSpan]
    states: frozenset[StateAt]

    @property
    def single(self) -> frozenset[StateAt]:
        """The states that are in no span, or its ends."""
        inside = {
            state
            for state in self.states
            for span in self.spans
            if state.fork == span.oldest.fork
            and span.oldest.version < state.version < span.newest.version
        }
        return self.states - inside


def retain(history: History, policy: RetentionPolicy) -> Retained:
    """Decide which states stay."""
    spans: set[StateSpan] = set()
    states = {*history.named, *(held.state for held in history.held)}
    for line in history.lines:
        count = _count(line, history, policy)
        kept = line.commits[:count]
        states.update(commit.state for commit in kept if commit.is_stored)
        spans.update(_spans(kept))
        states.update(
            commit.state
            for commit in line.commits[count:]
            if commit.kind == RECOVERY
            and commit.created_at >= history.now_us - tuning.active.fence_age_us
        )
    return Retained(spans=frozenset(spans), states=frozenset(states))


def reaches_further(
    place: int,
    commit: CommitAt,
    onward: Iterable[StateAt],
    policy: RetentionPolicy,
    now_us: int,
    is_shared: bool = False,
) -> bool:
    """True if a commit, or one before it, may have to stay: how far lines have to be read.

    A commit that is shared with another line is looked at there for what it is by itself.
    """
    return (
        policy.holds(place, commit.created_at)
        or (not is_shared and commit.created_at >= now_us - tuning.active.fence_age_us)
        or any(state.fork != commit.state.fork or state <= commit.state for state in onward)
    )


def _count(line: Line, history: History, policy: RetentionPolicy) -> int:
    """The number of commits of a line that stay, without a gap."""
    onward = [held.state for held in history.held if held.onward and held.branch == line.branch]
    places = [
        place
        for place, commit in enumerate(line.commits)
        if policy.holds(place, commit.created_at)
        or any(_is_from(state, commit.state) for state in onward)
    ]
    return max(places, default=0) + 1


def _is_from(start: StateAt, state: StateAt) -> bool:
    """True if a state is one of a manifest, or a later one of it."""
    return state.fork == start.fork and state.version >= start.version


def _spans(commits: Iterable[CommitAt]) -> Iterable[StateSpan]:
    """The runs of states on one manifest without a gap, among commits from new to old."""
    for (is_stored, _), run in groupby(commits, lambda each: (each.is_stored, each.state.fork)):
        if is_stored:
            states = [commit.state for commit in run]
            yield StateSpan(oldest=states[-1], newest=states[0])
