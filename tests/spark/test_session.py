"""Getting hold of sessions: which one, how often, and what happens when there is none."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from omnigraph.dataplane.spark import launch
from omnigraph.dataplane.spark.config import SparkConfig, configured
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession, acquire, active_session, is_running
from omnigraph.errors import Code, InvalidInput, Unavailable
from tests.spark import kernels
from tests.spark.conftest import ROOT
from tests.spark.kernels import Spec


def test_a_master_is_started_once(local: HeldSession, local_config: SparkConfig) -> None:
    assert is_running()
    with acquire(local_config) as again:
        assert again.session is local.session
        assert again.is_owned
        assert not again.ships


def test_the_active_session_is_taken_when_nobody_names_one(local: HeldSession) -> None:
    assert active_session() is local.session
    with acquire(configured(variables={})) as held:
        assert held.session is local.session
        assert held.is_owned


def test_a_session_that_is_given_is_used_as_it_is(local: HeldSession, tmp_path: Path) -> None:
    given = local.session.newSession()
    with acquire(configured(given)) as held:
        assert held.session is given
        assert not held.is_owned
        assert not held.ships
        assert list(SparkRunner(held).run("read", kernels.square, [Spec(tmp_path, 3)])) == [(0, 9)]
    assert launch.is_alive(local.session)


def test_a_session_of_ours_stays_ours_when_it_is_given(local: HeldSession) -> None:
    with acquire(configured(local.session)) as held:
        assert held.is_owned
        local.release()
        with pytest.raises(InvalidInput, match="Spark allows one at a time"):
            acquire(configured("local[1,2]"))


def test_another_master_waits_until_nobody_holds_the_first(
    local: HeldSession, local_config: SparkConfig, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=r"runs Spark at local\[2,3\]") as caught:
        acquire(configured("local[1,2]"))
    assert caught.value.code is Code.ENGINE_UNAVAILABLE
    local.release()
    with acquire(configured("local[1,2]")) as other:
        assert not launch.is_alive(local.session)
        assert SparkRunner(other).parallelism == 1
    with acquire(local_config) as again:
        assert SparkRunner(again).parallelism == 2


def test_settings_reach_spark(local: HeldSession) -> None:
    conf: Any = local.session.sparkContext.getConf()
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert "TieredStopAtLevel=1" in conf.get("spark.driver.extraJavaOptions")
    assert local.session.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1"])
def test_a_master_that_does_not_answer_is_said_at_once(master: str) -> None:
    with pytest.raises(Unavailable, match=r"answers at 127\.0\.0\.1:1"):
        acquire(configured(master))


# What a user's program sees: its own output and nothing else, Ctrl-C, no process left behind.
PROGRAM = """
    import json, os, sys, threading
    from pathlib import Path
    from omnigraph.dataplane.spark import launch
    from omnigraph.dataplane.spark.config import configured
    from omnigraph.dataplane.spark.runner import SparkRunner
    from omnigraph.dataplane.spark.session import acquire
    from tests.spark import kernels

    folder = Path(sys.argv[1])
    items = [kernels.Spec(folder, 0)]
    with acquire(configured("local[1,2]")) as held:
        runner = SparkRunner(held)
        print(json.dumps([launch.SparkContext._gateway.proc.pid, str(held.log)]), flush=True)
        try:
            list(runner.run("read", kernels.hang_first, items))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(list(runner.run("read", kernels.square, items)), flush=True)
"""


def test_a_program_sees_no_noise_is_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        jvm, log = json.loads(process.stdout.readline())
        wait_until(lambda: kernels.traces(tmp_path, 0) or process.poll() is not None)
        # As a terminal does: to everybody in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        printed, noise = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, noise) == (0, "")
    assert printed.splitlines() == ["interrupted", "[(0, 0)]"]
    assert Path(log).parent == tmp_path / "home" / "logs"
    assert Path(log).stat().st_size > 0
    wait_until(lambda: not Path(f"/proc/{jvm}").exists())


@pytest.mark.deep
def test_a_jvm_that_died_is_replaced(tmp_path: Path) -> None:
    program = """
        import os, signal
        from omnigraph.dataplane.spark import launch
        from omnigraph.dataplane.spark.config import configured
        from omnigraph.dataplane.spark.runner import SparkRunner
        from omnigraph.dataplane.spark.session import acquire
        from omnigraph.errors import Unavailable

        for master in ("local[1]", None):
            with acquire(configured(master)) as held:
                print(list(SparkRunner(held).run("read", abs, [-1])))
                process = launch.SparkContext._gateway.proc
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                try:
                    list(SparkRunner(held).run("read", abs, [-1]))
                except Unavailable:
                    print("gone")
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == ["[(0, 1)]", "gone"] * 2


def test_a_jvm_that_does_not_start_is_explained(tmp_path: Path) -> None:
    program = """
        from omnigraph.dataplane.spark.config import configured
        from omnigraph.dataplane.spark.session import acquire
        from omnigraph.errors import Unavailable
        try:
            acquire(configured("local", {"spark.driver.memory": "many"}))
        except Unavailable as error:
            print(error)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    assert "Invalid maximum heap size: -Xmxmany" in answer.stdout
    assert f"{tmp_path}/logs/spark-" in answer.stdout


def wait_until(condition: Any) -> None:
    """Wait, as long as the test may take."""
    while not condition():
        kernels.pause()
