"""The group `years` of the benchmarks measures in parts, and its page has all of them."""

from pathlib import Path

import pytest

from bench.figure import Figure
from bench.query.places import Place
from bench.years import group


def test_a_part_that_is_measured_again_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_BENCH_HOME", str(tmp_path))
    taken = {"clean-up": 1.0, "a long history": 2.0}
    for subject in taken:

        def figures(*_: object, name: str = subject) -> list[Figure]:
            return [Figure(name=name, cpu=taken[name], wall=1.0)]

        monkeypatch.setitem(group.SUBJECTS, subject, figures)
    group.run(0.001, ["cleanup"])
    group.run(0.001, ["history"])
    taken["clean-up"] = 3.0
    group.run(0.001, ["cleanup"])
    results = Place.of(0.001).results
    found = group.known(results)
    assert {name: each[0].cpu for name, each in found.items()} == {
        "clean-up": 3.0,
        "a long history": 2.0,
    }
    page = (results / "years.md").read_text(encoding="utf-8")
    assert page.index("## Clean-up") < page.index("## A long history")
