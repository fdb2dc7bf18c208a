"""The group `versioning` of the benchmarks measures what it says, at a size for tests."""

from pathlib import Path

import lance

from bench.versioning import floor, group
from bench.versioning.graphs import Delta


def test_every_way_of_merging_does_the_same(tmp_path: Path) -> None:
    delta = Delta.of(500, 50, 1)
    assert (delta.written.num_rows, len(delta.deleted)) == (45, 5)
    found = []
    for name in ("raw", "bare"):
        place = tmp_path / name
        floor.stored(place, 500)
        if name == "raw":
            floor.merge_insert(lance.dataset(str(place)), delta)
        else:
            floor.merge_fork(place, floor.fork_with(place, delta, "f"))
        rows = lance.dataset(str(place)).to_table().sort_by("id")
        assert rows.num_rows == 500
        found.append(rows)
    assert found[0].equals(found[1])


def test_figures_are_told_with_their_verdicts(tmp_path: Path) -> None:
    merges = group._merges(tmp_path, 1_000, [20])
    assert list(merges) == ["merge 20 into 1,000", "raw merge_insert of 20", "by hand, 20"]
    diff, feed = group._diff(tmp_path, 1_000, 10), group._feed(tmp_path, 3)
    text = group.page([*merges.values(), diff, feed], 0.001)
    assert text.count("| met |") + text.count("| MISSED |") == 3
    assert not list(tmp_path.iterdir())
