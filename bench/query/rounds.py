"""Taking the times: answers are compared first, then engines take turns in short bursts.

Every engine lives in a process of its own for the whole run. A round goes through the questions,
and at each question through the engines in an order that is shuffled anew, so that a busy moment
of the machine hits nobody alone.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.query.check import Agreement, Rows, common, ranked, same_rows
from bench.query.client import Client, EngineFailed
from bench.query.engines import OURS
from bench.query.figures import Cell, Cold
from bench.query.oracle import Oracle
from bench.query.places import Place
from bench.query.prepare import Say
from bench.query.questions import Compared, Question

ROUNDS: Final = 5
BURST_NS: Final = 1_000_000_000
CHECKS: Final = 5
CHECK_NS: Final = 3_000_000_000
# Who takes longer than this is asked only once: to compare the answer.
SLOW_NS: Final = 3_000_000_000
HOPELESS_NS: Final = 30_000_000_000
COLD_RUNS: Final = 3
EMPTY: Final = f"{OURS}, empty cache"

Parameters = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(slots=True)
class _Course:
    """How an engine does at a question, while it is measured."""

    answers: list[Rows] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    slow: bool = False
    failure: str = ""

    def cell(self, agreement: Agreement | None) -> Cell:
        if self.failure or agreement is None:
            return Cell(note=self.failure)
        return Cell(samples=tuple(self.samples), right=agreement.right, note=agreement.note)


class Warm:
    """The engines, open all the time."""

    def __init__(
        self, place: Place, questions: Sequence[Question], params: Parameters, say: Say
    ) -> None:
        self._place = place
        self._questions = questions
        self._params = params
        self._say = say
        self._stack = ExitStack()
        self._clients: dict[str, Client] = {}
        self._courses: dict[tuple[str, str], _Course] = {}
        self._agreements: dict[tuple[str, str], Agreement] = {}
        self.memory: dict[str, int] = {}

    def run(self, engines: Sequence[str]) -> dict[tuple[str, str], Cell]:
        """Compare the answers, then take the times."""
        with self._stack:
            for name in engines:
                self._open(name)
            self._check()
            self._rounds()
            for name, client in self._clients.items():
                self.memory[name] = client.memory()[1]
        return {
            key: course.cell(self._agreements.get(key)) for key, course in self._courses.items()
        }

    def _open(self, name: str) -> None:
        self._clients.pop(name, None)
        client = self._stack.enter_context(Client(name, self._place.engine(name)))
        try:
            client.open()
        except EngineFailed as failure:
            self._say(str(failure))
        else:
            self._clients[name] = client

    # -- answers -----------------------------------------------------------------------------

    def _check(self) -> None:
        oracle: Oracle | None = None
        for question in self._questions:
            self._say(f"{question.name}: comparing the answers")
            for name, client in list(self._clients.items()):
                if question.name in client.questions:
                    self._answers(name, client, question)
            given = {
                name: course.answers
                for (name, asked), course in self._courses.items()
                if asked == question.name and not course.failure
            }
            if question.compared is Compared.ROWS:
                agreed = common(given)
                for name, answers in given.items():
                    self._agreements[name, question.name] = same_rows(answers, agreed)
            else:
                oracle = oracle or Oracle(self._place.data)
                best = [oracle.best(question.name, p) for p in self._params[question.name][:CHECKS]]
                for name, answers in given.items():
                    agreement = ranked(question.compared, answers, best[: len(answers)])
                    self._agreements[name, question.name] = agreement
            for name in given:
                if not (agreement := self._agreements[name, question.name]).right:
                    self._say(f"{question.name}: {name} is wrong: {agreement.note}")

    def _answers(self, name: str, client: Client, question: Question) -> None:
        course = self._courses[name, question.name] = _Course()
        total = 0
        for params in self._params[question.name][:CHECKS]:
            try:
                taken, rows = client.answer(question.name, params)
                if SLOW_NS < taken < HOPELESS_NS and not course.answers:
                    # It may have read or built something that it keeps.
                    taken, rows = client.answer(question.name, params)
            except EngineFailed as failure:
                self._fail(name, question, course, failure)
                return
            course.answers.append(rows)
            total += taken
            if taken > SLOW_NS:
                course.slow = True
                course.samples.append(taken)
            if total > CHECK_NS:
                return

    def _fail(self, name: str, question: Question, course: _Course, failure: EngineFailed) -> None:
        course.failure = str(failure).strip().splitlines()[-1]
        self._say(f"{question.name}: {course.failure}")
        if not self._clients[name].alive:
            self._open(name)

    # -- times -------------------------------------------------------------------------------

    def _rounds(self) -> None:
        dice = random.Random(1)
        for number in range(ROUNDS):
            self._say(f"round {number + 1} of {ROUNDS}")
            for question in self._questions:
                names = [name for name in self._clients if self._due(name, question)]
                dice.shuffle(names)
                calls = self._params[question.name]
                # A question without parameters is asked just as often.
                calls = calls if len(calls) > 1 else list(calls) * 60
                for name in names:
                    if name in self._clients:
                        self._burst(name, question, calls)

    def _due(self, name: str, question: Question) -> bool:
        course = self._courses.get((name, question.name))
        return course is not None and not course.failure and not course.slow

    def _burst(self, name: str, question: Question, calls: Sequence[Mapping[str, Any]]) -> None:
        course = self._courses[name, question.name]
        try:
            course.samples += self._clients[name].burst(question.name, calls, BURST_NS)
        except EngineFailed as failure:
            self._fail(name, question, course, failure)


def cold(
    place: Place,
    warm: Mapping[tuple[str, str], Cell],
    params: Parameters,
    say: Say,
) -> dict[tuple[str, str], Cold]:
    """Ask each question once in new processes, whoever answers it in bearable time."""
    due = [key for key, cell in warm.items() if cell.samples and cell.median_ms * 1e6 <= SLOW_NS]
    due += [(EMPTY, question) for engine, question in due if engine == OURS]
    runs = due * COLD_RUNS
    random.Random(2).shuffle(runs)
    taken: dict[tuple[str, str], list[tuple[float, float, float, int]]] = defaultdict(list)
    for number, (engine, question) in enumerate(runs):
        if number % 20 == 0:
            say(f"new process {number + 1} of {len(runs)}")
        try:
            with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as nothing:
                cache = Path(nothing) if engine == EMPTY else None
                name = OURS if engine == EMPTY else engine
                taken[engine, question].append(_once(place, name, question, params, cache))
        except EngineFailed as failure:
            say(str(failure))
    return {
        key: Cold(
            wall_ms=statistics.median(run[0] for run in found),
            open_ms=statistics.median(run[1] for run in found),
            first_ms=statistics.median(run[2] for run in found),
            peak_bytes=max(run[3] for run in found),
        )
        for key, found in taken.items()
    }


def _once(
    place: Place, engine: str, question: str, params: Parameters, cache: Path | None
) -> tuple[float, float, float, int]:
    with Client(engine, place.engine(engine), cache) as client:
        opened = client.open()
        first, _ = client.answer(question, params[question][0])
        wall = client.age_ns
        return wall / 1e6, opened / 1e6, first / 1e6, client.memory()[1]
