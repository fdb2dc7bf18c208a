"""Loads for the tests of Spark: the same input for every engine, and runners that break."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from omnigraph.core.repository import Repository
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.spark.runner import SparkRunner
from tests.graphs import rows
from tests.spark.kernels import attempt, executor, hang
from tests.unit.dataplane.load.support import Lab, Line, company, edge, lab_at, note, person

Item = TypeVar("Item")
Result = TypeVar("Result")


def people(count: int, start: int = 0) -> list[Line]:
    """Entities of several types, with edges before and after their nodes."""
    lines: list[Line] = [company(f"c{n}", size=n) for n in range(5)]
    for n in range(start, start + count):
        lines.append(edge("Knows", f"p{n}", f"p{start + (n * 7) % count}", since="2024-05-01"))
        lines.append(person(f"p{n}", age=n % 100, email=f"p{n}@x", score=n / 4))
        lines.append(edge("Rates", f"p{n}", f"c{n % 5}", stars=n % 6))
        lines.append(note(f"note {n}", id=f"n{n}"))
    return lines


def loaded_here(path: Path) -> Lab:
    """Forty people, and then every third of them changed: what a cluster should end up with."""
    lab = lab_at(path)
    lab.load(people(40))
    lab.load([person(f"p{n}", age=1) for n in range(0, 40, 3)], "merge")
    return lab


def faulty(count: int) -> list[Line | str]:
    """The same with mistakes of every kind, far from each other."""
    lines: list[Line | str] = [*people(count)]
    lines[7] = "{ not json"
    lines.insert(20, person("p3"))
    lines.insert(33, person("q1", age=999))
    lines.insert(34, person("q2", email="p5@x"))
    lines.insert(50, edge("Knows", "p1", "nobody"))
    lines.insert(60, {"type": "Person", "data": {"name": "q3", "agee": 1}})
    lines.append(edge("Rates", "p1", "c1", stars=1))
    lines.extend(edge("WorksAt", "p2", f"c{n}") for n in range(3))
    return lines


def contents(repo: Repository) -> dict[str, list[tuple[tuple[str, Any], ...]]]:
    """Everything in a graph; ids that were generated are left out."""
    snapshot = repo.snapshot()
    generated = {"edge:Knows", "edge:WorksAt", "edge:Owns"}
    return {
        key: sorted(
            (tuple((k, v) for k, v in row.items() if k != "id" or key not in generated))
            for row in rows(repo, key, snapshot).values()
        )
        for key in snapshot.tables
    }


def refused(lab: Lab, lines: Sequence[Line | str], runner: Runner | None) -> list[dict[str, Any]]:
    request = lab.request(lab.file(lines, "same.jsonl"), split_bytes=4_000, partitions=3)
    return lab.violations_of(request, runner)


@dataclass(frozen=True)
class Broken:
    """An item of a stage that goes wrong once."""

    task: Callable[[Any], Any]
    item: Any
    number: int
    folder: Path
    how: str


def break_once(broken: Broken) -> Any:
    """Do the work; then, the first time, go wrong: what was written stays behind."""
    result = broken.task(broken.item)
    if broken.number != 1:
        return result
    match broken.how:
        case "fail" if attempt() == 0:
            raise OSError("the disk hiccups")
        case "straggle" if attempt() == 0:
            hang()
        case "kill":
            try:
                (broken.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                return result
            os.kill(executor(), signal.SIGKILL)
            hang()
        case _:
            pass
    return result


@dataclass
class BreakingRunner:
    """A runner on Spark, one stage of which goes wrong."""

    runner: SparkRunner
    folder: Path
    how: str
    stage: str = "read"
    broken: int = 0
    is_remote: bool = True

    @property
    def parallelism(self) -> int:
        return self.runner.parallelism

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        if stage != self.stage or len(items) < 2:
            yield from self.runner.run(stage, task, items)
            return
        self.broken += 1
        wrapped = [
            Broken(task, item, number, self.folder, self.how) for number, item in enumerate(items)
        ]
        yield from self.runner.run(stage, break_once, wrapped)
