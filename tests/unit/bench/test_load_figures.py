"""Measuring loads, judging the figures, and telling both."""

import io
import pickle
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.load import chart, page
from bench.load.client import Client, ContenderFailed, Sample
from bench.load.contender import Pass
from bench.load.course import Course, Entry
from bench.load.figures import Figures, Goal, Measured, Part, times
from bench.load.parts import PARTS
from bench.load.parts.common import at_most, faster
from bench.load.places import Place
from bench.load.worker import Worker, serve

MIB = 1 << 20


def sample(seconds: float, peak: int = MIB) -> Sample:
    return Sample(
        seconds=seconds,
        cpu_seconds=2 * seconds,
        driver_bytes=peak,
        jvm_bytes=peak,
        workers_bytes=0,
        wall_seconds=seconds + 1,
    )


def measured(name: str, *seconds: float, **more: object) -> Measured:
    samples = tuple(sample(each) for each in seconds)
    return Measured(name=name, samples=samples, rows=1_000, bytes=5_000_000, **more)  # type: ignore[arg-type]


FLOOR, OURS = measured("floor", 4.0, 9.0, 2.0), measured("ours", 3.0, ours=True)
ABSENT = Measured(name="absent", note="not installed")
RUN = Figures(
    scale=1.0,
    parts=(
        Part(
            name="ndjson",
            title="Lines <of> text",
            measured=(FLOOR, OURS, ABSENT),
            base="floor",
            goals=(
                at_most({"floor": FLOOR, "ours": OURS}, "ours", "floor", 1.4),
                faster({"floor": FLOOR, "ours": OURS}, "floor", "ours", 1.5),
                at_most({"ours": OURS}, "ours", "floor", 1.4),
            ),
            remarks=("a remark",),
        ),
    ),
)


def test_the_least_time_counts() -> None:
    assert (FLOOR.seconds, FLOOR.cpu_seconds, FLOOR.peak_bytes) == (2.0, 4.0, 2 * MIB)
    assert (FLOOR.rows_per_second, FLOOR.megabytes_per_second) == (500.0, 2.5)
    assert measured("new", 1.0, whole=True).seconds == 2.0
    assert (ABSENT.seconds, ABSENT.peak_bytes, ABSENT.rows_per_second) == (None, None, None)
    assert times(OURS, FLOOR) == 1.5
    assert times(ABSENT, FLOOR) is None


def test_goals_are_met_from_either_side() -> None:
    goals = RUN.parts[0].goals
    assert [goal.verdict for goal in goals] == ["MISSED", "met", "-"]
    assert [goal.target for goal in goals] == ["<= 1.4x", ">= 1.5x", "<= 1.4x"]
    assert Goal(text="", value=0.2, limit=0.25, unit=" s").verdict == "met"


def test_the_page_and_the_drawing_tell_everything(capsys: pytest.CaptureFixture[str]) -> None:
    text = page.markdown(RUN)
    assert "| **ours** | 3 s | 6 s | 333 | 2 | 2 MiB | 1.50 |" in text
    assert "| floor | 2 s | 4 s | 500 | 2 | 2 MiB | - |" in text
    assert "- absent: not measured, not installed" in text
    assert "- a remark" in text
    drawn = ElementTree.fromstring(chart.draw(RUN))
    bars = [item.get("class") for item in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars == ["peer", "ours"]
    page.show_part(RUN.parts[0])
    page.show_goals(RUN)
    shown = capsys.readouterr().out
    assert "1 MISSED" in shown
    assert "\x1b" not in shown


def test_every_part_has_a_name_of_its_own() -> None:
    assert list(PARTS) == [
        "ndjson",
        "parquet",
        "vectors",
        "vector-lines",
        "files",
        "pieces",
        "packed",
        "update",
        "start",
        "memory",
        "merge",
        "export",
        "threshold",
    ]


# -- processes -------------------------------------------------------------------------------


def writes(*, target: str, rows: int = 2) -> Pass:
    """A contender that leaves a file and says how many rows it has."""

    def run() -> None:
        Path(target).write_text("x" * rows)

    return Pass(run=run, count=lambda: {"Row": rows, "Other": 0}, about={"bytes": rows})


def fails(*, target: str) -> Pass:
    """A contender that cannot."""
    raise ValueError(target)


def test_a_worker_answers_and_survives_mistakes(tmp_path: Path) -> None:
    target = tmp_path / "x"
    requests = io.BytesIO(
        b"".join(
            pickle.dumps(each)
            for each in (
                ("prepare", f"{__name__}:writes", {"target": str(target)}),
                ("run",),
                ("finish",),
                ("prepare", f"{__name__}:fails", {"target": "t"}),
            )
        )
    )
    replies = io.BytesIO()
    serve(Worker(), requests, replies)
    replies.seek(0)
    answers = [pickle.load(replies) for _ in range(4)]
    assert [outcome for outcome, _ in answers] == ["done", "done", "done", "failed"]
    assert answers[2][1] == ({"Row": 2, "Other": 0}, {"bytes": 2})
    assert "ValueError: t" in answers[3][1]
    assert target.exists()


def test_a_course_leaves_out_who_fails_or_does_something_else(tmp_path: Path) -> None:
    told: list[str] = []
    course = Course(Place(tmp_path), told.append, peers=False)

    def entry(name: str, **more: object) -> Entry:
        values = {"call": f"{HERE}:writes", "arguments": {}, "counts": {"Row": 2}, **more}
        return Entry(name=name, **values)  # type: ignore[arg-type]

    found = course.run(
        [
            entry("right", bytes=None, warm={"rows": 1}),
            entry("new", fresh=True, rounds=1),
            entry("wrong", arguments={"rows": 3}),
            entry("failing", call=f"{HERE}:fails"),
            entry("peer", peer=True),
        ],
        rounds=2,
    )
    assert {name: len(item.samples) for name, item in found.items()} == {
        "right": 2,
        "new": 1,
        "wrong": 0,
        "failing": 0,
        "peer": 0,
    }
    assert found["right"].bytes == 2
    assert found["wrong"].note == "wrong made {'Row': 3}, not {'Row': 2}"
    assert found["peer"].note == "not installed"
    assert any("ValueError" in line for line in told)
    with pytest.raises(ContenderFailed):
        course.once(entry("failing", call=f"{HERE}:fails", arguments={"target": "t"}))


def test_a_dead_process_is_told(tmp_path: Path) -> None:
    with Client(tmp_path / "log.txt") as client:
        client.kill()
        with pytest.raises(ContenderFailed, match="died at prepare"):
            client.measure("os:abort", {})


HERE = "tests.unit.bench.test_load_figures"
