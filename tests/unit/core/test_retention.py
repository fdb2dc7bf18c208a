"""Which states stay: the policy, names, holds; decided from a history alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core import tuning
from omnigraph.core.cleanup.retention import (
    CommitAt,
    History,
    Line,
    NeededState,
    RetentionPolicy,
    StateAt,
    StateSpan,
    reaches_further,
    retain,
)
from omnigraph.types import MAIN, BranchName

FENCE_AGE_US = tuning.active.fence_age_us

NOW = 10 * FENCE_AGE_US
DEV = BranchName("dev")


def line(*versions: int, branch: BranchName = MAIN, fork: str = "", **kinds: str) -> Line:
    """A branch whose commits are as many days old as they are places behind its head."""
    commits = tuple(
        CommitAt(
            state=StateAt(fork, version),
            created_at=NOW - place * FENCE_AGE_US,
            kind=kinds.get(f"v{version}", "mutation"),
        )
        for place, version in enumerate(versions)
    )
    return Line(branch=branch, commits=commits)


def history(
    *lines: Line, named: tuple[StateAt, ...] = (), held: tuple[NeededState, ...] = ()
) -> History:
    return History(lines=lines, named=frozenset(named), held=held, now_us=NOW)


def versions(found: frozenset[StateAt], fork: str = "") -> list[int]:
    return sorted(state.version for state in found if state.fork == fork)


def test_the_newest_commits_stay() -> None:
    found = retain(history(line(9, 8, 7, 5, 4)), RetentionPolicy(keep=3))
    assert versions(found.states) == [7, 8, 9]
    assert found.spans == {StateSpan(StateAt("", 7), StateAt("", 9))}
    assert versions(found.single) == [7, 9]


def test_young_commits_stay_and_of_two_rules_the_kinder_one_counts() -> None:
    young = RetentionPolicy(keep=1, since_us=NOW - 2 * FENCE_AGE_US)
    assert versions(retain(history(line(9, 8, 7, 5, 4)), young).states) == [7, 8, 9]
    both = RetentionPolicy(keep=4, since_us=NOW - 2 * FENCE_AGE_US)
    assert versions(retain(history(line(9, 8, 7, 5, 4)), both).states) == [5, 7, 8, 9]


def test_a_branch_keeps_commits_of_what_it_was_made_from() -> None:
    dev = Line(
        branch=DEV,
        commits=(*line(12, 11, fork="dev").commits, *line(9, 8, 7).commits),
    )
    found = retain(history(line(20, 19), dev), RetentionPolicy(keep=3))
    assert versions(found.states, "dev") == [11, 12]
    assert versions(found.states) == [9, 19, 20]


def test_named_and_held_states_stay() -> None:
    named, held = (StateAt("", 3),), (NeededState(MAIN, StateAt("", 5)),)
    found = retain(history(line(9, 8, 7, 5, 4, 3), named=named, held=held), RetentionPolicy(keep=1))
    assert versions(found.states) == [3, 5, 9]
    feed = (NeededState(MAIN, StateAt("", 5), onward=True),)
    found = retain(history(line(9, 8, 7, 5, 4, 3), held=feed), RetentionPolicy(keep=1))
    assert versions(found.states) == [5, 7, 8, 9]


def test_what_recovery_put_in_the_way_of_a_late_writer_stays_for_a_day() -> None:
    found = retain(history(line(9, 8, 7, v8="recovery", v7="recovery")), RetentionPolicy(keep=1))
    assert versions(found.states) == [8, 9]


@given(
    count=st.integers(1, 12),
    keep=st.integers(1, 14),
    named=st.sets(st.integers(1, 12)),
)
def test_heads_and_names_always_stay_and_more_is_kept_by_a_kinder_policy(
    count: int, keep: int, named: set[int]
) -> None:
    states = tuple(StateAt("", version) for version in named)
    seen = history(line(*range(count, 0, -1)), named=states)
    kept = retain(seen, RetentionPolicy(keep=keep)).states
    assert {StateAt("", count), *states} <= kept
    assert kept <= retain(seen, RetentionPolicy(keep=keep + 1)).states
    assert len(kept) >= min(keep, count)


def test_a_gap_that_an_earlier_clean_up_left_is_in_no_span() -> None:
    commits = [
        replace(commit, is_stored=commit.state.version not in (5, 6))
        for commit in line(9, 8, 6, 5, 4, 3).commits
    ]
    found = retain(history(Line(branch=MAIN, commits=tuple(commits))), RetentionPolicy(keep=9))
    assert versions(found.states) == [3, 4, 8, 9]
    assert found.spans == {
        StateSpan(StateAt("", 3), StateAt("", 4)),
        StateSpan(StateAt("", 8), StateAt("", 9)),
    }


def test_a_line_is_read_up_to_what_is_held_however_old_it_is() -> None:
    policy = RetentionPolicy(keep=1)
    dev = (*line(8, 7, fork="dev").commits, *line(6, 5, 4).commits)
    old = [replace(commit, created_at=0) for commit in dev]
    # A feed is where the branch begins: all commits of the branch are still to come.
    onward = [StateAt("", 6)]
    read = [reaches_further(at, commit, onward, policy, NOW) for at, commit in enumerate(old)]
    assert read == [True, True, True, False, False]
    held = NeededState(DEV, onward[0], onward=True)
    found = retain(history(Line(branch=DEV, commits=tuple(old[:3])), held=(held,)), policy)
    assert versions(found.states, "dev") == [7, 8]
