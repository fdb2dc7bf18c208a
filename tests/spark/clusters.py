"""Real Spark clusters on this machine, started from the package of PySpark itself.

    with standalone(folder) as cluster:
        runner_at(cluster.master)

Everything listens on loopback, picks its own ports, writes below the given folder, and is gone
when the block is left, however that happens; and with this process, should that be killed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from omnigraph.dataplane.spark.launch import forking_to_execute
from tests.spark.namespaces import Host
from tests.spark.processes import below

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
# Small and quick to start; for executors, too.
LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": LEAN,
}
LOCAL_CLUSTER = "local-cluster[2,1,512]"
_POLL_S = 0.05
_POLLS_MAX = 4_000
_PR_SET_PDEATHSIG = 1


# Runs a command that has a folder of its own in the place of one that others see.
_ALONE = (
    *("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",))),
    *("sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"'),
)


def can_be_private(folder: Path) -> bool:
    """May processes have a folder of their own here? Containers often forbid it."""
    try:
        found = subprocess.run([*_ALONE, folder, "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return found.returncode == 0


@dataclass(frozen=True)
class Cluster:
    """A master with its workers.

    Attributes:
        master: Its address, as Spark wants it.
        folder: Where everything of it is written.
    """

    master: str
    folder: Path


@contextmanager
def standalone(
    folder: Path,
    hosts: Sequence[Host] = (Host("127.0.0.1", ()), Host("127.0.0.2", ())),
    private: Path | None = None,
    address: str = "127.0.0.1",
) -> Iterator[Cluster]:
    """A master and a worker on each host, with one core each.

    Two hosts, because Spark runs a speculative copy of a task only on another one.

    Args:
        folder: Where everything of it is written.
        hosts: Where the workers run.
        private: A folder of which every worker has one of its own; see `can_be_private`.
        address: Where the master listens.
    """
    folder.mkdir(parents=True, exist_ok=True)
    any_port = ("--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        log = folder / "master.log"
        leader = ("org.apache.spark.deploy.master.Master", "--host", address, *any_port)
        process = stack.enter_context(_process(leader, log, Host(address, ())))
        master = _awaited(process, log, r"Starting Spark master at (spark://\S+)")
        started = []
        for number, host in enumerate(hosts):
            log = folder / f"worker-{number}.log"
            room = ("--cores", "1", "--memory", "600m", "--work-dir", str(log.with_suffix("")))
            worker = (
                *("org.apache.spark.deploy.worker.Worker", "--host", host.address),
                *(*any_port, *room),
            )
            process = stack.enter_context(_process((*worker, master), log, host, private=private))
            started.append((process, log))
        for process, log in started:
            _awaited(process, log, r"(Successfully registered with master)")
        yield Cluster(master, folder)


@contextmanager
def connect_server(
    folder: Path, master: str = "local[2,3]", paths: Sequence[Path] = ()
) -> Iterator[str]:
    """A Spark Connect server; yields its address. Its Python finds modules in these folders."""
    with connect_process(folder, master, paths) as (url, _):
        yield url


@contextmanager
def connect_process(
    folder: Path, master: str = "local[2,3]", paths: Sequence[Path] = ()
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Spark Connect server, and the process that it is."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "connect.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": LEAN,
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    arguments = ["org.apache.spark.deploy.SparkSubmit", "--class", server, "--master", master]
    for key, value in settings.items():
        arguments += ["--conf", f"{key}={value}"]
    with _process(arguments, log, Host("127.0.0.1", ()), memory="1g", paths=paths) as process:
        yield "sc://" + _awaited(process, log, r"Spark Connect server started at: (\S+)"), process


@contextmanager
def local_cluster() -> Iterator[str]:
    """Executors that are processes of their own, under the driver; yields the master to name.

    They work in a folder of the package, which Spark does not let us choose. What is new there
    afterwards is removed, but for what another process of the test run works in.
    """
    work = SPARK_HOME / "work"
    before = set(work.glob("app-*"))
    try:
        yield LOCAL_CLUSTER
    finally:
        here = {os.getpid(), *below(os.getpid(), "")}
        taken = {folder for pid, folder in _working_folders() if pid not in here}
        for path in set(work.glob("app-*")) - before:
            if not any(folder.is_relative_to(path) for folder in taken):
                shutil.rmtree(path, ignore_errors=True)


def _working_folders() -> Iterator[tuple[int, Path]]:
    """The processes of this machine, and where each of them works."""
    for process in Path("/proc").glob("[0-9]*"):
        # It may have ended, or be somebody else's.
        with suppress(OSError):
            yield int(process.name), (process / "cwd").readlink()


@contextmanager
def _process(
    arguments: Sequence[str],
    log: Path,
    host: Host,
    memory: str = "256m",
    paths: Sequence[Path] = (),
    private: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    alone = () if private is None else (*_ALONE, str(private))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *paths))),
        "SPARK_DAEMON_JAVA_OPTS": LEAN,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_LOCAL_IP": host.address,
    }
    with log.open("wb") as file, forking_to_execute():
        process = subprocess.Popen(
            [*host.inside, *alone, str(SPARK_HOME / "bin" / "spark-class"), *arguments],
            cwd=log.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - a few system calls, no lock
        )
    try:
        yield process
    finally:
        # Its children are in its group: executors, their workers.
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                continue
        process.wait()


def _awaited(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a process logs once it is ready."""
    for _ in range(_POLLS_MAX):
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        if process.poll() is not None:
            break
        threading.Event().wait(_POLL_S)
    raise RuntimeError(f"{log}: {log.read_text(errors='replace')[-4_000:]}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
