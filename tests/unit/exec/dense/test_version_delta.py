"""Deltas between versions: handles and arrays move as lists of names do."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.dense.row_ids import AscendingRows, ListedRows
from omnigraph.exec.dense.version_delta import VersionDelta, composed, derived_array, derived_column
from omnigraph.exec.tuning import tuned


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


def delta_between(old: Version, new: Version) -> VersionDelta:
    before = dict(zip(old.names, old.written, strict=True))
    after = dict(zip(new.names, new.written, strict=True))
    updated = [
        place
        for place, name in enumerate(new.names)
        if name in before and after[name] != before[name]
    ]
    deleted = [place for place, name in enumerate(old.names) if name not in after]
    inserted = [place for place, name in enumerate(new.names) if name not in before]
    return VersionDelta(
        len(before), len(after), *(np.array(x, np.int64) for x in (deleted, inserted, updated))
    )


@given(histories(), st.sampled_from([-1, 1_000]), st.sampled_from([-1, 1_000]))
def test_version_deltas(history: list[Version], stretches: int, shifts: int) -> None:
    first, second, third = history
    long = composed(delta_between(first, second), delta_between(second, third))
    assert_equal(long, delta_between(first, third))
    with tuned(copied_slices_max=stretches, shifted_handles_max=shifts):
        check_moves(first, third, long)
        check_moves(first, second, delta_between(first, second))


def assert_equal(left: VersionDelta, right: VersionDelta) -> None:
    for name in ("before", "after", "deleted", "inserted", "updated"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


def check_moves(old: Version, new: Version, delta: VersionDelta) -> None:
    expected = [new.names.index(name) if name in new.names else -1 for name in old.names]
    assert delta.forward_map().tolist() == expected
    everyone = np.arange(len(old.names), dtype=np.int32)
    assert delta.renumbered(np.append(everyone, np.int32(-1))).tolist() == [*expected, -1]
    left = np.array([place for place, there in enumerate(expected) if there >= 0], np.int64)
    assert delta.new_handles(left).tolist() == [expected[place] for place in left]
    assert delta.old_handles(delta.new_handles(left)).tolist() == left.tolist()
    inserted = [new.names[place] for place in delta.inserted]
    assert derived_array(np.array(old.names, np.int64), delta, inserted).tolist() == list(new.names)
    values = [str((n, w)) for n, w in zip(old.names, old.written, strict=True)]
    wanted = [str((n, w)) for n, w in zip(new.names, new.written, strict=True)]
    fresh = pa.array([wanted[place] for place in delta.written.tolist()], pa.string())
    assert derived_column(pa.array(values, pa.string()), delta, fresh).to_pylist() == wanted


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
    deleted = sorted(data.draw(st.sets(st.sampled_from(everyone.tolist())))) if ranked else []
    inserted = sorted(data.draw(st.sets(st.integers(41, 60))))
    after = ascending.changed(np.array(deleted, np.int64), np.array(inserted, np.int64))
    left = [row for place, row in enumerate(ranked) if place not in deleted] + inserted
    assert after.all().tolist() == left
    again = AscendingRows.from_rows(np.array(left, np.int64))
    assert after.firsts.tolist() == again.firsts.tolist()
    if left:
        assert after.last == left[-1]
