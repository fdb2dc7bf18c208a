"""The runner of this process: results, errors, interrupts."""

import contextvars
import threading

import pytest

from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.errors import Code, InvalidInput

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("MARK", default="")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_gives_its_result(threads: int) -> None:
    runner = InProcessRunner(threads)
    assert sorted(runner.run("s", lambda n: n * n, range(7))) == [(n, n * n) for n in range(7)]
    assert list(runner.run("s", str, [])) == []


def test_tasks_see_the_context_of_the_caller() -> None:
    MARK.set("here")
    found = InProcessRunner(3).run("s", lambda _: MARK.get(), range(4))
    assert {result for _, result in found} == {"here"}


def test_the_first_error_ends_the_stage_and_the_others_are_told() -> None:
    stopped, began = threading.Event(), threading.Event()
    ran: list[int] = []

    def task(number: int) -> int:
        ran.append(number)
        if number == 0:
            began.wait(60)
            raise InvalidInput(Code.INPUT_INVALID, "bad")
        began.set()
        # Would never end if nobody told it.
        assert stopped.wait(60)
        return number

    with pytest.raises(InvalidInput, match="bad"):
        list(InProcessRunner(2, stopped.set).run("s", task, range(50)))
    assert sorted(ran) == [0, 1]


def test_leaving_early_stops_the_rest() -> None:
    stopped = threading.Event()
    ran: list[int] = []

    def task(number: int) -> int:
        ran.append(number)
        if number:
            assert stopped.wait(60)
        return number

    results = InProcessRunner(2, stopped.set).run("s", task, range(50))
    assert next(results) == (0, 0)
    results.close()  # type: ignore[attr-defined]
    assert len(ran) <= 3
