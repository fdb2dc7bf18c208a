"""The verdicts of recovery, as a table.

Every row of the table is one situation: what the planned commits of a table left in its history,
what is published of it, and whether the writer confirms. The verdict follows from the set of
classes, so pairs and triples of them complete the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.journal.intent import PlannedTable
from omnigraph.core.recovery.decide import (
    Discard,
    Forget,
    RollBack,
    RollForward,
    Stop,
    TableState,
    Tip,
    classify,
    decide,
)
from tests.unit.core.intents import an_intent, planned

N, P, R, H, T = (
    TableState.NO_MOVEMENT,
    TableState.ROLLED_PAST_EXPECTED,
    TableState.RESTORED,
    TableState.INCOMPLETE_PHASE_B,
    TableState.OVERTAKEN,
)
U1, UM, V = (
    TableState.UNEXPECTED_AT_P1,
    TableState.UNEXPECTED_MULTISTEP,
    TableState.INVARIANT_VIOLATION,
)
FOREIGN = {U1, UM, V}

# The base is version 5. "a" and "b" are the planned commits, "~" restores, "x" is a stranger's,
# "?" a version whose commit cannot be told.
EXPECTED = 5
ONE = ("a",)
TWO = ("a", "b")
CLASSES = [
    # plan, confirms, confirmed, history, published: class
    (ONE, False, None, "", 5, N),
    (ONE, False, None, "a", 5, P),
    (ONE, False, None, "a~", 5, R),
    (ONE, False, None, "x", 5, T),  # another tool took the place: ours never landed
    (ONE, False, None, "?", 5, U1),
    (ONE, False, None, "~", 5, R),  # a fence: it never landed and never will
    (ONE, False, None, "b", 5, T),
    (ONE, False, None, "aa", 5, UM),
    (ONE, False, None, "ax", 5, UM),
    (ONE, False, None, "a?", 5, UM),
    (ONE, False, None, "xa", 5, UM),
    (ONE, False, None, "x~", 5, UM),
    (ONE, False, None, "a~x", 5, UM),
    (ONE, False, None, "a~~", 5, UM),
    (ONE, False, None, "a~a", 5, UM),
    (ONE, False, None, "xxxx", 5, T),
    (ONE, False, None, "x?", 5, T),
    (TWO, False, None, "", 5, N),
    (TWO, False, None, "a", 5, H),
    (TWO, False, None, "ab", 5, P),
    (TWO, False, None, "a~", 5, R),
    (TWO, False, None, "~", 5, R),
    (TWO, False, None, "~a", 5, UM),
    (TWO, False, None, "ab~", 5, R),
    (TWO, False, None, "b", 5, U1),
    (TWO, False, None, "ba", 5, UM),
    (TWO, False, None, "abx", 5, UM),
    (TWO, False, None, "axb", 5, UM),
    (TWO, False, None, "ab~x", 5, UM),
    # a writer that confirms is believed when it has confirmed, and not before
    (ONE, True, None, "", 5, N),
    (ONE, True, None, "a", 5, H),
    (ONE, True, 6, "a", 5, P),
    (ONE, True, 6, "a~", 5, R),
    (ONE, True, 6, "x", 5, T),
    (ONE, True, 6, "ax", 5, UM),
    (ONE, True, 7, "a", 5, H),
    (TWO, True, None, "ab", 5, H),
    (TWO, True, None, "a", 5, H),
    (TWO, True, 7, "ab", 5, P),
    (TWO, True, 7, "a", 5, H),
    (TWO, True, 7, "abx", 5, UM),
    (TWO, True, 7, "", 5, N),
    # a pin beyond the base, while the write is not visible: somebody published over it
    (ONE, False, None, "", 6, V),
    (ONE, False, None, "a", 6, V),
    (ONE, False, None, "ax", 7, V),
    (ONE, False, None, "a~", 7, V),
    (ONE, False, None, "~", 6, V),
    (ONE, False, None, "?", 6, V),
    (ONE, False, None, "x", 7, V),
    (TWO, False, None, "b", 6, V),
    # another commit stands where ours was to land, and is published: ours never landed
    (ONE, False, None, "x", 6, T),
    (ONE, False, None, "xx", 6, T),
    (ONE, False, None, "xxxx", 9, T),
    (ONE, True, None, "x", 6, T),
    (ONE, True, 6, "x", 6, T),
    # no pin: the table is not part of the branch (any more)
    (ONE, False, None, "", None, N),
    (ONE, False, None, "a", None, P),
    (ONE, False, None, "x", None, T),
    # a pin before the base cannot be ours to judge; the head decides
    (ONE, False, None, "", 4, N),
    (ONE, False, None, "a", 4, P),
]


def history(plan: tuple[str, ...], letters: str) -> tuple[str | None, ...]:
    meaning: dict[str, str | None] = {"?": None, "~": f"{plan[0]}.restore"}
    return tuple(meaning.get(letter, letter) for letter in letters)


def tip(plan: tuple[str, ...], letters: str, published: int | None = EXPECTED) -> Tip:
    return Tip(head=EXPECTED + len(letters), uuids=history(plan, letters), published=published)


@pytest.mark.parametrize(
    ("plan", "confirms", "confirmed", "letters", "published", "state"), CLASSES
)
def test_the_class_of_one_table(
    plan: tuple[str, ...],
    confirms: bool,
    confirmed: int | None,
    letters: str,
    published: int | None,
    state: TableState,
) -> None:
    item = planned("t", expected=EXPECTED, uuids=plan, confirmed=confirmed)
    assert classify(item, tip(plan, letters, published), confirms=confirms) is state


def test_a_head_before_the_base_violates_an_invariant() -> None:
    item = planned("t", expected=EXPECTED, uuids=ONE)
    seen = Tip(head=EXPECTED - 1, uuids=(), published=EXPECTED - 1)
    assert classify(item, seen, confirms=False) is V


def test_a_table_that_was_not_looked_at_violates_an_invariant() -> None:
    assert classify(planned("t", expected=EXPECTED, uuids=ONE), None, confirms=False) is V


def test_a_history_that_does_not_reach_the_head_is_foreign() -> None:
    item = planned("t", expected=EXPECTED, uuids=ONE)
    assert classify(item, Tip(head=6, uuids=(), published=5), confirms=False) is U1
    assert classify(item, Tip(head=7, uuids=("a",), published=5), confirms=False) is UM
    assert classify(item, Tip(head=7, uuids=("x",), published=5), confirms=False) is UM
    assert classify(item, Tip(head=5, uuids=("a",), published=5), confirms=False) is UM


# One history per class, for a plan of two commits without confirmation.
SHOWN = {N: "", P: "ab", R: "a~", H: "a", U1: "b", UM: "abx", V: "ab", T: "x"}


def expected_verdict(states: tuple[TableState, ...], holds: bool) -> type:
    seen = set(states)
    if seen & FOREIGN:
        return Stop
    if seen == {P} and holds:
        return RollForward
    return Discard if seen <= {T} else RollBack


def combinations() -> Iterator[tuple[TableState, ...]]:
    for size in (1, 2, 3):
        yield from itertools.product(TableState, repeat=size)


@pytest.mark.parametrize("holds", [True, False])
def test_the_verdict_on_every_combination_of_up_to_three_tables(holds: bool) -> None:
    for states in combinations():
        keys = [f"t{position}" for position in range(len(states))]
        intent = an_intent(tables=tuple(planned(key, expected=EXPECTED, uuids=TWO) for key in keys))
        tips = {
            key: tip(TWO, SHOWN[state], 6 if state in (V, T) else EXPECTED)
            for key, state in zip(keys, states, strict=True)
        }
        verdict = decide(intent, tips, holds=holds)
        assert isinstance(verdict, expected_verdict(states, holds)), (states, verdict)
        match verdict:
            case RollForward(versions):
                assert versions == dict.fromkeys(keys, EXPECTED + 2)
            case RollBack(fence, restore):
                shown = list(zip(keys, states, strict=True))
                assert list(fence) == [key for key, s in shown if s is N]
                assert sorted(restore) == [key for key, s in shown if s not in (N, T)]
                # Whatever has not landed as a whole comes first: it stops the writer.
                whole = [states[keys.index(key)] not in (H,) for key in restore]
                assert whole == sorted(whole)
            case Stop(seen):
                assert seen == dict(zip(keys, states, strict=True))
                assert all(key in verdict.reason for key in keys)
        assert decide(intent, tips, holds=holds, settled=True) == Forget()


@pytest.mark.parametrize("confirmed", [(None, None), (6, None), (None, 6)])
def test_a_merge_that_is_not_confirmed_as_a_whole_goes_back(
    confirmed: tuple[int | None, int | None],
) -> None:
    tables = tuple(
        planned(f"t{n}", expected=EXPECTED, uuids=ONE, confirmed=version)
        for n, version in enumerate(confirmed)
    )
    tips = {item.table_key: tip(ONE, "a") for item in tables}
    assert decide(an_intent(tables=tables, confirms=True), tips) == RollBack((), ("t0", "t1"))


def test_a_confirmed_merge_goes_forward_to_what_was_confirmed() -> None:
    tables = tuple(
        planned(f"t{n}", expected=EXPECTED, uuids=plan, confirmed=EXPECTED + len(plan))
        for n, plan in enumerate((ONE, TWO))
    )
    tips = {"t0": tip(ONE, "a"), "t1": tip(TWO, "ab")}
    verdict = decide(an_intent(tables=tables, confirms=True), tips)
    assert verdict == RollForward({"t0": 6, "t1": 7})


def test_a_roll_back_that_was_begun_is_finished_even_if_everything_had_landed() -> None:
    tables = tuple(planned(f"t{n}", expected=EXPECTED, uuids=ONE) for n in range(3))
    tips = {"t0": tip(ONE, "a~"), "t1": tip(ONE, "a"), "t2": tip(ONE, "")}
    assert decide(an_intent(tables=tables), tips) == RollBack(("t2",), ("t0", "t1"))


def test_an_intent_without_a_tip_stops() -> None:
    assert isinstance(decide(an_intent(tables=(planned("t"),)), {}), Stop)


def of_the_writer(item: PlannedTable, seen: Tip) -> bool:
    """Whether the first commit since the base is one of the writer's."""
    return bool(seen.uuids) and seen.uuids[0] in (*item.uuids, item.restore_uuid)


names = st.sampled_from(["a", "b", "x", "a.restore", "b.restore", "", None])
tips = st.builds(
    Tip,
    head=st.integers(min_value=-1, max_value=12),
    uuids=st.lists(names, max_size=6).map(tuple),
    published=st.none() | st.integers(min_value=0, max_value=12),
)
plans = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, tuple[tuple[str, ...], int | None]], object]:
    keys = draw(st.lists(st.sampled_from("tuvw"), min_size=0, max_size=4, unique=True))
    tables = {
        key: (draw(plans), draw(st.none() | st.integers(min_value=4, max_value=9))) for key in keys
    }
    shown = draw(st.dictionaries(st.sampled_from("tuvw"), tips, max_size=4))
    return tables, shown


@given(situations(), st.booleans(), st.booleans(), st.booleans())
def test_decide_is_total_and_never_touches_what_a_stranger_moved(
    situation: tuple[dict[str, tuple[tuple[str, ...], int | None]], dict[str, Tip]],
    confirms: bool,
    settled: bool,
    holds: bool,
) -> None:
    tables, shown = situation
    intent = an_intent(
        tables=tuple(
            planned(key, expected=EXPECTED, uuids=plan, confirmed=confirmed)
            for key, (plan, confirmed) in tables.items()
        ),
        confirms=confirms,
    )
    verdict = decide(intent, shown, settled=settled, holds=holds)
    assert isinstance(verdict, Forget | Discard | RollForward | RollBack | Stop)
    assert decide(intent, shown, settled=settled, holds=holds) == verdict
    if settled:
        assert verdict == Forget()
        return
    strangers = {
        item.table_key
        for item in intent.tables
        if item.table_key in shown
        for uuid in shown[item.table_key].uuids
        if uuid not in (*item.uuids, item.restore_uuid)
    }
    if isinstance(verdict, RollBack):
        assert strangers.isdisjoint((*verdict.fence, *verdict.restore))
    elif strangers:
        assert isinstance(verdict, Stop | Discard)
    if isinstance(verdict, Discard):
        assert all(not of_the_writer(item, shown[item.table_key]) for item in intent.tables)
    if isinstance(verdict, RollForward):
        assert holds
        assert all(shown[key].uuids == plan for key, (plan, _) in tables.items())
    if isinstance(verdict, RollBack):
        assert all(shown[key].uuids for key in verdict.restore)
        assert not any(shown[key].uuids for key in verdict.fence)
