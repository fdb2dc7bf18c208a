"""The runner on a session of this machine: results, errors, retries, cancelling, frames."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.errors import Cancelled, Code, GraphError, Internal, InvalidInput, Unavailable
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.runtime.clock import SystemClock
from tests.spark import kernels
from tests.spark.kernels import Spec, traces


def specs(folder: Path, count: int) -> list[Spec]:
    return [Spec(folder, number) for number in range(count)]


@pytest.fixture
def runner(local: HeldSession) -> SparkRunner:
    return SparkRunner(local)


def test_it_says_what_it_is(runner: SparkRunner) -> None:
    assert runner.is_remote
    assert runner.parallelism == 2


def test_every_item_gives_its_result(runner: SparkRunner, tmp_path: Path) -> None:
    # More than one block of items, and a closure among them: tasks need not be of a module.
    offset = 7
    found = list(runner.run("read", lambda spec: spec.number + offset, specs(tmp_path, 67)))
    assert found == [(number, number + 7) for number in range(67)]


def test_nothing_to_do_is_done(runner: SparkRunner) -> None:
    assert list(runner.run("read", kernels.square, [])) == []


def test_an_error_of_ours_is_raised_as_it_is_and_not_tried_again(
    runner: SparkRunner, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="item 1 is bad") as caught:
        list(runner.run("read", kernels.refuse, specs(tmp_path, 3)))
    assert caught.value.code is Code.INPUT_INVALID
    assert caught.value.details == {"number": 1}
    assert [len(traces(tmp_path, number)) for number in range(3)] == [1, 1, 1]


def test_a_storage_failure_is_tried_again(runner: SparkRunner, tmp_path: Path) -> None:
    assert list(runner.run("read", kernels.storage_hiccup, specs(tmp_path, 1))) == [(0, 0)]
    assert len(traces(tmp_path, 0)) == 2


def test_a_dead_worker_whose_socket_lives_on_is_missed(runner: SparkRunner, tmp_path: Path) -> None:
    """Spark itself waits for ever: no process answers, and the socket is not closed."""
    try:
        with tuning.tuned(polls_per_worker_check=5):
            found = list(runner.run("read", kernels.leave_sockets, specs(tmp_path, 1)))
    finally:
        os.kill(int((tmp_path / "heir").read_text()), signal.SIGKILL)
    assert [(number, attempts) for number, (_, attempts) in found] == [(0, 1)]


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        (
            kernels.storage_down,
            Unavailable,
            r"table.write of 'nodes/1': unavailable: it is raining",
        ),
        (kernels.busy_elsewhere, Unavailable, "come back later"),
        (kernels.bug, Internal, r"ZeroDivisionError: a bug \(kernels.py:\d+\).*spark-\d+.log"),
        (kernels.crash, Unavailable, "worker exited unexpectedly"),
    ],
)
def test_what_fails_every_time_ends_the_stage_after_the_last_attempt(
    runner: SparkRunner,
    tmp_path: Path,
    task: Callable[[Spec], int],
    kind: type[GraphError],
    text: str,
) -> None:
    with pytest.raises(kind, match=text):
        list(runner.run("read", task, specs(tmp_path, 1)))
    assert len(traces(tmp_path, 0)) == 3
    assert list(runner.run("read", kernels.square, specs(tmp_path, 1))) == [(0, 0)]


def test_a_module_that_workers_lack_is_named(runner: SparkRunner, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no module no_such_module_anywhere") as caught:
        list(runner.run("read", kernels.lacks_module, specs(tmp_path, 1)))
    assert caught.value.code is Code.ENGINE_UNAVAILABLE
    assert caught.value.details == {"module": "no_such_module_anywhere"}


def test_a_result_that_cannot_travel_is_our_fault(runner: SparkRunner, tmp_path: Path) -> None:
    with pytest.raises(Internal, match="cannot pickle"):
        list(runner.run("read", kernels.unpicklable, specs(tmp_path, 1)))


def test_an_interrupt_cancels_and_the_session_lives_on(runner: SparkRunner, tmp_path: Path) -> None:
    with interrupted_when(lambda: bool(traces(tmp_path, 0))), pytest.raises(KeyboardInterrupt):
        list(runner.run("read", kernels.hang_first, specs(tmp_path, 1)))
    assert jobs_running(runner) == []
    assert list(runner.run("read", kernels.square, specs(tmp_path, 2))) == [(0, 0), (1, 1)]


class Traced(CancelToken):
    """Is cancelled once the first task of a stage has begun."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @property
    def cancelled(self) -> bool:
        return bool(traces(self.folder, 0))


def test_cancelling_cancels_the_job_and_the_session_lives_on(
    runner: SparkRunner, tmp_path: Path
) -> None:
    with pytest.raises(Cancelled), limited(SystemClock(), None, Traced(tmp_path)):
        list(runner.run("read", kernels.hang_first, specs(tmp_path, 1)))
    assert jobs_running(runner) == []
    assert list(runner.run("read", kernels.square, specs(tmp_path, 2))) == [(0, 0), (1, 1)]


def test_progress_is_told_and_its_error_cancels(runner: SparkRunner, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    runner.on_progress = lambda done, tasks: told.append((done, tasks))
    list(runner.run("read", kernels.square, specs(tmp_path, 4)))
    assert told[-1] == (4, 4)
    assert told == sorted(told)

    def refuse(done: int, tasks: int) -> None:
        raise RuntimeError("enough")

    runner.on_progress = refuse
    with pytest.raises(RuntimeError, match="enough"):
        list(runner.run("read", kernels.hang_first, specs(tmp_path, 1)))
    assert jobs_running(runner) == []


def test_two_stages_run_at_once(runner: SparkRunner, tmp_path: Path) -> None:
    found: dict[int, list[tuple[int, int]]] = {}

    def run(count: int) -> None:
        found[count] = list(runner.run("read", kernels.square, specs(tmp_path, count)))

    threads = [threading.Thread(target=run, args=(count,)) for count in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {2: [(0, 0), (1, 1)], 3: [(0, 0), (1, 1), (2, 4)]}


def test_the_partitions_of_a_frame_go_through_a_task(runner: SparkRunner) -> None:
    frame = runner.session.range(0, 100, 1, 4).selectExpr("id AS age", "'x' AS name")
    found = dict(runner.run_frame("read", kernels.total, frame))
    assert sorted(found) == [0, 1, 2, 3]
    assert sum(rows for rows, _, _ in found.values()) == 100
    assert sum(amount for _, amount, _ in found.values()) == sum(range(100))
    assert found[0][2] == ["age", "name"]


def test_empty_partitions_count_and_rows_may_be_left(runner: SparkRunner) -> None:
    frame = runner.session.range(0, 2, 1, 3)
    assert sorted(rows for _, (rows, _, _) in runner.run_frame("read", kernels.total, frame)) == [
        0,
        1,
        1,
    ]
    many = runner.session.range(0, 200_000, 1, 2)
    assert dict(runner.run_frame("read", kernels.first_row_only, many)) == {0: 0, 1: 100_000}
    with pytest.raises(InvalidInput, match="partition 0 is bad"):
        list(runner.run_frame("read", kernels.refuse_rows, many))


def jobs_running(runner: SparkRunner) -> list[int]:
    return list(runner.session.sparkContext.statusTracker().getActiveJobsIds())


class interrupted_when:
    """Send this process the signal of Ctrl-C once a condition holds."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(0.02):
            if self._condition():
                os.kill(os.getpid(), signal.SIGINT)
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture(autouse=True)
def _interrupts_are_not_lost() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before
