"""Steps between versions: handles and arrays move as lists of names do."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.dense import step as module
from omnigraph.exec.dense.row_ids import AscendingRows, ListedRows
from omnigraph.exec.dense.step import Step, carried, carried_column, composed


@dataclass(frozen=True)
class Version:
    """Names in order, and for each the version that wrote it."""

    names: tuple[int, ...]
    written: tuple[int, ...]


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    first = tuple(draw(st.lists(st.integers(0, 20), unique=True, max_size=8)))
    versions = [Version(first, (0,) * len(first))]
    for number in (1, 2):
        old = dict(zip(versions[-1].names, versions[-1].written, strict=True))
        kept = [name for name in old if draw(st.booleans())]
        for fresh in draw(st.lists(st.integers(), max_size=5)):
            place = fresh % (len(kept) + 1)
            kept.insert(place, 100 * number + len(kept))
        written = [number if name not in old or draw(st.booleans()) else old[name] for name in kept]
        versions.append(Version(tuple(kept), tuple(written)))
    return versions


def step_between(old: Version, new: Version) -> Step:
    before = dict(zip(old.names, old.written, strict=True))
    after = dict(zip(new.names, new.written, strict=True))
    rewritten = [
        place
        for place, name in enumerate(new.names)
        if name in before and after[name] != before[name]
    ]
    gone = [place for place, name in enumerate(old.names) if name not in after]
    born = [place for place, name in enumerate(new.names) if name not in before]
    return Step(len(before), len(after), *(np.array(x, np.int64) for x in (gone, born, rewritten)))


@given(histories(), st.sampled_from([-1, 1_000]), st.sampled_from([-1, 1_000]))
def test_steps(history: list[Version], stretches: int, shifts: int) -> None:
    first, second, third = history
    long = composed(step_between(first, second), step_between(second, third))
    assert_equal(long, step_between(first, third))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STRETCHES_MAX", stretches)
        patch.setattr(module, "_SHIFTS_MAX", shifts)
        check_moves(first, third, long)
        check_moves(first, second, step_between(first, second))


def assert_equal(left: Step, right: Step) -> None:
    for name in ("before", "after", "gone", "born", "rewritten"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


def check_moves(old: Version, new: Version, step: Step) -> None:
    expected = [new.names.index(name) if name in new.names else -1 for name in old.names]
    assert step.forward().tolist() == expected
    everyone = np.arange(len(old.names), dtype=np.int32)
    assert step.renumbered(np.append(everyone, np.int32(-1))).tolist() == [*expected, -1]
    left = np.array([place for place, there in enumerate(expected) if there >= 0], np.int64)
    assert step.moved(left).tolist() == [expected[place] for place in left]
    assert step.origins(step.moved(left)).tolist() == left.tolist()
    born = [new.names[place] for place in step.born]
    assert carried(np.array(old.names, np.int64), step, born).tolist() == list(new.names)
    values = [str((n, w)) for n, w in zip(old.names, old.written, strict=True)]
    wanted = [str((n, w)) for n, w in zip(new.names, new.written, strict=True)]
    fresh = pa.array([wanted[place] for place in step.fresh.tolist()], pa.string())
    assert carried_column(pa.array(values, pa.string()), step, fresh).to_pylist() == wanted


rows = st.lists(st.integers(0, 40), unique=True)


@given(rows, rows)
def test_rows_in_any_order(known: list[int], asked: list[int]) -> None:
    listed = ListedRows(np.array(known, np.int64))
    expected = [known.index(row) if row in known else -1 for row in asked]
    assert listed.find(np.array(asked, np.int64)).tolist() == expected
    assert listed.all().tolist() == known


@given(rows, rows, st.data())
def test_ascending_rows(known: list[int], asked: list[int], data: st.DataObject) -> None:
    ranked = sorted(known)
    ascending = AscendingRows.from_rows(np.array(ranked, np.int64))
    assert ascending.all().tolist() == ranked
    everyone = np.arange(len(ranked))
    assert ascending.of(everyone).tolist() == ranked
    expected = [ranked.index(row) if row in ranked else -1 for row in asked]
    assert ascending.find(np.array(asked, np.int64)).tolist() == expected
    gone = sorted(data.draw(st.sets(st.sampled_from(everyone.tolist())))) if ranked else []
    born = sorted(data.draw(st.sets(st.integers(41, 60))))
    after = ascending.changed(np.array(gone, np.int64), np.array(born, np.int64))
    left = [row for place, row in enumerate(ranked) if place not in gone] + born
    assert after.all().tolist() == left
    again = AscendingRows.from_rows(np.array(left, np.int64))
    assert after.firsts.tolist() == again.firsts.tolist()
    if left:
        assert after.last == left[-1]
