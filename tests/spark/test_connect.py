"""The runner over Spark Connect: at a server that is named, and at one that stays."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark import connect
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import Held, acquire
from omnigraph.errors import InvalidInput, Unavailable
from tests.spark import kernels
from tests.spark.clusters import connect_process, connect_server
from tests.spark.kernels import Spec, traces
from tests.spark.test_runner import interrupted_when, specs


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    with (
        connect_server(tmp_path_factory.mktemp("connect")) as url,
        acquire(configured(url)) as held,
    ):
        yield held


@pytest.fixture
def runner(remote: Held) -> SparkRunner:
    return SparkRunner(remote)


def test_every_item_gives_its_result(runner: SparkRunner, remote: Held, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    runner.on_progress = lambda done, tasks: told.append((done, tasks))
    found = list(runner.run("read", kernels.square, specs(tmp_path, 3)))
    assert found == [(0, 0), (1, 1), (2, 4)]
    assert told[-1] == (3, 3)
    assert remote.is_connect
    assert runner.parallelism == 2


def test_the_server_is_given_our_code(runner: SparkRunner, tmp_path: Path) -> None:
    ((_, place),) = runner.run("read", kernels.where_code_is, specs(tmp_path, 1))
    assert ".zip" in place


def test_errors_come_back(runner: SparkRunner, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="item 1 is bad"):
        list(runner.run("read", kernels.refuse, specs(tmp_path, 2)))
    with pytest.raises(Unavailable, match="it is raining"):
        list(runner.run("read", kernels.storage_down, [Spec(tmp_path, 9)]))
    assert len(traces(tmp_path, 9)) == 3


def test_an_interrupt_cancels_and_the_session_lives_on(runner: SparkRunner, tmp_path: Path) -> None:
    with interrupted_when(lambda: bool(traces(tmp_path, 0))), pytest.raises(KeyboardInterrupt):
        list(runner.run("read", kernels.hang_first, specs(tmp_path, 1)))
    assert list(runner.run("read", kernels.square, specs(tmp_path, 2))) == [(0, 0), (1, 1)]


def test_frames_go_through_a_task(runner: SparkRunner) -> None:
    frame = runner.session.range(0, 100, 1, 4)
    found = dict(runner.run_frame("read", kernels.total, frame))
    assert sum(amount for _, amount, _ in found.values()) == sum(range(100))


def test_classic_and_connect_live_in_one_process(remote: Held, local: Held, tmp_path: Path) -> None:
    for held in (remote, local, remote):
        assert list(SparkRunner(held).run("read", kernels.square, specs(tmp_path, 2))) == [
            (0, 0),
            (1, 1),
        ]


@pytest.mark.deep
def test_a_server_that_goes_is_said_and_the_next_session_is_another(tmp_path: Path) -> None:
    with connect_process(tmp_path / "server") as (url, process):
        held = acquire(configured(url))

        def kill_server() -> None:
            while not traces(tmp_path, 0):
                kernels.pause()
            process.kill()

        killer = threading.Thread(target=kill_server)
        killer.start()
        with pytest.raises(Unavailable):
            list(SparkRunner(held).run("read", kernels.hang_first, specs(tmp_path, 1)))
        killer.join()
        held.release()
        with pytest.raises(Unavailable, match="no Spark Connect server answers"):
            acquire(configured(url))
    connect.disconnect(held.session)


@pytest.mark.deep
def test_a_server_that_stays_is_used_again(tmp_path: Path) -> None:
    config = configured("connect", variables={"OMNIGRAPH_HOME": str(tmp_path)})
    try:
        with acquire(config) as held:
            assert not held.ships
            first = held.session.client.host
            assert list(SparkRunner(held).run("read", kernels.square, specs(tmp_path, 1))) == [
                (0, 0)
            ]
            connect.disconnect(held.session)
        with acquire(config) as again:
            assert again.session is not held.session
            assert again.session.client.host == first
            connect.disconnect(again.session)
    finally:
        assert connect.stop_server(tmp_path)
