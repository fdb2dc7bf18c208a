"""Group `outgrown`: a graph of four times the memory that a query may take, asked on Spark.

Every question is answered by Spark under a bound of a quarter of the stored data, and then in this
process without any bound; the answers must be the same. Times are processor seconds of single runs,
those of the JVM and its workers included. The first run of a question on Spark stands apart, since
it reads what the session then keeps. The peaks of memory are those of the runs on Spark.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final, TypeAlias

import omnigraph as og
from bench.load.processes import Usage, forget_peaks, usage
from bench.query.engines.fill import fill
from bench.query.generate import generate
from bench.query.parameters import parameters
from bench.query.questions import QUESTIONS, Question
from omnigraph.cli import render
from omnigraph.errors import JsonValue, LimitExceeded

SCALE: Final = 0.6  # about 256 MiB, four times 64 MiB
TIMES: Final = 4
MASTER: Final = f"local[{len(os.sched_getaffinity(0))},3]"
HEADINGS: Final = (
    "question",
    "Spark, first",
    "Spark, again",
    "process",
    "within the bound",
    "same",
)


Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSpark:
    """The answers of Spark to all questions.

    Attributes:
        rows: By question.
        seconds: By question, the processor seconds of the first run and of the second.
        used: The peaks of the processes.
    """

    rows: Mapping[str, Rows]
    seconds: Mapping[str, tuple[float, float]]
    used: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one question was answered; times in processor seconds."""

    question: Question
    first: float
    again: float
    process: float
    fits: bool  # whether the process answers within the bound
    same: bool
    rows: int


def run(scale: float = 1.0) -> JsonValue:
    """Ask, tell, and answer the figures."""
    screen = render.out()
    folder = Path(tempfile.mkdtemp(prefix="outgrown-"))
    try:
        place, params, size = prepare(folder, SCALE * scale)
        bound = size // TIMES
        there = on_spark(place, params, bound)
        answers = list(compared(place, params, bound, there))
    finally:
        shutil.rmtree(folder)
    screen.line(
        ("outgrown", "bold"),
        f": {size >> 20} MiB stored, at most {bound >> 20} MiB a query, {MASTER}",
    )
    screen.table(HEADINGS, [_row(item) for item in answers])
    used = there.used
    screen.line(
        f"peak memory: this process {used.driver_bytes >> 20} MiB, the JVM "
        f"{used.jvm_bytes >> 20} MiB, the largest worker {used.worker_bytes >> 20} MiB, "
        f"all workers {used.workers_bytes >> 20} MiB"
    )
    return {
        "driver_bytes": used.driver_bytes,
        "jvm_bytes": used.jvm_bytes,
        "worker_bytes": used.worker_bytes,
        "workers_bytes": used.workers_bytes,
        "bytes": size,
        "query_bytes_max": bound,
        "answers": [
            {
                "question": item.question.name,
                "spark_first_s": round(item.first, 3),
                "spark_again_s": round(item.again, 3),
                "process_s": round(item.process, 5),
                "fits": item.fits,
                "same": item.same,
                "rows": item.rows,
            }
            for item in answers
        ],
    }


def prepare(folder: Path, scale: float) -> tuple[Path, Mapping[str, list[dict[str, Any]]], int]:
    """A filled graph, the parameters of the questions, and the bytes that the tables take."""
    generate(folder / "data", scale)
    fill(folder / "data", folder / "graph")
    found = parameters(folder / "data")
    shutil.rmtree(folder / "data")
    files = (path for path in (folder / "graph").rglob("data/*.lance"))
    return folder / "graph", found, sum(path.stat().st_size for path in files)


def on_spark(
    place: Path, params: Mapping[str, list[dict[str, Any]]], bound: int, master: str = MASTER
) -> OnSpark:
    """Ask all questions on Spark, twice each, under a bound."""
    found: dict[str, Rows] = {}
    seconds: dict[str, tuple[float, float]] = {}
    forget_peaks(os.getpid())
    with og.open(place, "r", settings=og.Settings(query_bytes_max=bound)) as graph:
        for question in QUESTIONS:
            given = params[question.name][0]
            moments = [usage(os.getpid()).cpu_seconds]
            for _ in range(2):
                rows = graph.query(question.text, given, engine="spark", spark=master)
                found[question.name] = rows.to_arrow().to_pylist()
                moments.append(usage(os.getpid()).cpu_seconds)
            seconds[question.name] = (moments[1] - moments[0], moments[2] - moments[1])
    return OnSpark(rows=found, seconds=seconds, used=usage(os.getpid()))


def compared(
    place: Path, params: Mapping[str, list[dict[str, Any]]], bound: int, there: OnSpark
) -> Iterator[Answer]:
    """The answers of Spark beside those of this process, without a bound and with it."""
    settings = og.Settings(query_bytes_max=bound)
    with og.open(place, "r", settings=settings) as narrow, og.open(place, "r") as wide:
        for question in QUESTIONS:
            given = params[question.name][0]
            wide.query(question.text, given, engine="inprocess").to_arrow()
            begin = process_time()
            wanted = wide.query(question.text, given, engine="inprocess").to_arrow().to_pylist()
            process = process_time() - begin
            first, again = there.seconds[question.name]
            found = there.rows[question.name]
            yield Answer(
                question=question,
                first=first,
                again=again,
                process=process,
                fits=_fits(narrow, question, given),
                same=_same(found, wanted),
                rows=len(found),
            )


def _fits(graph: og.Graph, question: Question, given: dict[str, Any]) -> bool:
    try:
        graph.query(question.text, given, engine="inprocess").to_arrow()
    except LimitExceeded:
        return False
    return True


def _same(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """The same rows in the same order; floats are exact, but for the last bits of a distance."""
    return len(left) == len(right) and all(
        one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
        for one, other in zip(left, right, strict=True)
    )


def _equal(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)
    return left == right


def _row(item: Answer) -> tuple[str, ...]:
    return (
        f"{item.question.name} {item.question.title}",
        f"{item.first:.2f} s",
        f"{item.again:.2f} s",
        f"{item.process * 1000:.1f} ms",
        "yes" if item.fits else "refused",
        "yes" if item.same else "NO",
    )
