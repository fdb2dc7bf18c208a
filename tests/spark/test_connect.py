"""The runner over Spark Connect: at a server that is named, and at one that stays."""

import json
import os
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark import connect
from omnigraph.dataplane.spark.config import SparkConfig, configured, master_kind
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession, acquire
from omnigraph.errors import GraphError, InvalidInput, Unavailable
from tests.spark import kernels
from tests.spark.agreeing import agree
from tests.spark.clusters import connect_process, connect_server
from tests.spark.kernels import Spec, traces
from tests.spark.test_runner import interrupted_when, specs

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldSession]:
    with (
        connect_server(tmp_path_factory.mktemp("connect")) as url,
        acquire(configured(url)) as held,
    ):
        yield held


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConfig]:
    """For sessions at a server that stays, started with a token of its own."""
    home = tmp_path_factory.mktemp("stays")
    config = configured("connect", variables={"OMNIGRAPH_HOME": str(home)})
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.delenv(TOKEN, raising=False)
            use(config)
        yield config
    finally:
        assert connect.stop_server(home)


def use(config: SparkConfig) -> None:
    """Work in a new session, and in one that is made from it, which opens a channel of its own."""
    assert config.master is not None
    session, _ = connect.connected(config, config.master, master_kind(config.master))
    another = session.newSession()
    try:
        assert session.range(3).count() == 3
        assert another.range(2).count() == 2
    finally:
        connect.disconnect(another)
        connect.disconnect(session)


@pytest.fixture
def runner(remote: HeldSession) -> SparkRunner:
    return SparkRunner(remote)


def test_every_item_gives_its_result(
    runner: SparkRunner, remote: HeldSession, tmp_path: Path
) -> None:
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


def test_queries(remote: HeldSession, tmp_path: Path) -> None:
    agree(tmp_path / "g", remote.session)


def test_classic_and_connect_live_in_one_process(
    remote: HeldSession, local: HeldSession, tmp_path: Path
) -> None:
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


def test_the_token_of_a_server_that_stays_is_for_that_server(
    remote: HeldSession, stays: SparkConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    use(stays)
    assert os.environ.get(TOKEN) is None
    use(configured(remote.master))


def test_a_token_of_the_user_is_for_the_servers_of_the_user(
    stays: SparkConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(TOKEN, "of-the-user")
    # The server finds the token in its environment, and asks for it.
    with connect_server(tmp_path) as url:
        # Only a host of this name may be told a token without TLS.
        theirs = url.replace("127.0.0.1", "localhost")
        use(stays)
        assert os.environ[TOKEN] == "of-the-user"
        use(configured(theirs))
        other = configured(f"{theirs}/;token=hidden")
        with pytest.raises(Unavailable) as caught:
            use(other)
        assert "hidden" not in shown(caught.value)


@pytest.mark.parametrize(
    "master",
    [
        "sc://127.0.0.1:1/;token=hidden",
        "sc://127.0.0.1:1/;token=hidden==",
        "sc://127.0.0.1:1;token=hidden",
        "sc://127.0.0.1;token=hidden",
        "sc://127.0.0.1:x/;token=hidden",
        "sc://127.0.0.1:1/path;token=hidden",
        "sc://;token=hidden",
        "sc://127.0.0.1:1/?token=hidden",
        "sc://127.0.0.1:1/token=hidden",
        "sc://127.0.0.1:1,token=hidden",
        "sc://127.0.0.1:1/%3Btoken=hidden",
        "sc://user:hidden@127.0.0.1:1",
        "SC://127.0.0.1:1/;token=hidden",
        "sc:/127.0.0.1:1/;token=hidden",
        "127.0.0.1:1/;token=hidden",
        "connect;token=hidden",
    ],
)
def test_a_token_in_an_address_is_not_shown(master: str) -> None:
    with pytest.raises(GraphError) as caught:
        acquire(configured(master))
    assert "hidden" not in shown(caught.value)


def shown(error: GraphError) -> str:
    return json.dumps(error.to_json()) + "".join(traceback.format_exception(error))
