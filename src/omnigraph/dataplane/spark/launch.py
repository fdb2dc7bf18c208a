"""Starting and ending classic sessions: one JVM of this process, its noise in a file."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.driver import address_of
from omnigraph.dataplane.spark.settings import (
    DRIVER_VARIABLE,
    LEAN,
    default_variable,
    variable,
)
from omnigraph.dataplane.spark.shipping import drop_older

_PYTHON: Final = "PYSPARK_PYTHON"
_lock: Final = threading.RLock()
# The JVM that we launched. PySpark keeps one per process.
_own: list[Any] = []
# Settings that it was launched with: it takes them for the defaults of every later session.
_given: dict[str, str] = {}


def log_file(home: Path) -> Path:
    """The file to which the JVM of this process writes."""
    return home / "logs" / f"spark-{os.getpid()}.log"


def start(settings: Mapping[str, str], log: Path) -> SparkSession:
    """Start a session. To be called on a thread of its own.

    On the main thread Spark would take the handler of interrupts away, and cancel everything when
    one comes; here the waiting thread handles the interrupt.
    """
    # The JVM looks for data sources with the Python that its own environment names.
    named = settings.get("spark.pyspark.python")
    python = variable(_PYTHON, named) if named else default_variable(_PYTHON, sys.executable)
    with _lock, python:
        _forget(settings)
        conf = SparkConf(loadDefaults=SparkContext._jvm is not None)
        for key, value in settings.items():
            conf.set(key, value)
        if SparkContext._gateway is None:
            _launch(conf, log)
            _given.update(settings)
        # The first job will need it, and this process has little else to do until then.
        threading.Thread(target=_preload, name="omnigraph-spark-preload", daemon=True).start()
        return SparkSession(SparkContext(conf=conf))


def stop(session: SparkSession) -> None:
    """End a session; the JVM stays for the next one."""
    with suppress(Exception):
        session.stop()


def is_alive(session: SparkSession) -> bool:
    """True if this session can still be used."""
    try:
        return session._sc._jsc is not None and not session._sc._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - whatever it is, the JVM does not answer
        return False


def running() -> SparkContext | None:
    """The Spark context of this process, started by us or by others."""
    with _lock:
        _forget_dead()
    return SparkContext._active_spark_context


def shut_down(patience_s: float | None = None) -> int | None:
    """End the JVM that we launched and wait for it; return its status, if there was one."""
    with _lock:
        if not _own or SparkContext._gateway is not _own[0]:
            _own.clear()
            return None
        gateway = _own.pop()
        _given.clear()
        SparkContext._gateway = None
        SparkContext._jvm = None
        process: subprocess.Popen[bytes] = gateway.proc
        with suppress(Exception):
            gateway.shutdown()
        if process.stdin is not None:
            process.stdin.close()
        try:
            return process.wait(patience_s or tuning.active.exit_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _forget_dead() -> None:
    """Forget a JVM of ours that has died, so that another can be launched."""
    if not _own or _own[0].proc.poll() is None:
        return
    if (context := SparkContext._active_spark_context) is not None:
        # The JVM cannot be reached; what the context keeps in this process must go.
        context._jsc = None
        with suppress(Exception):
            context.stop()
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    shut_down()


def _forget(settings: Mapping[str, str]) -> None:
    """Forget the settings of an earlier session, for the next one."""
    if SparkContext._jvm is not None:
        for key in set(_given) - set(settings):
            SparkContext._jvm.java.lang.System.clearProperty(key)
            del _given[key]


def _launch(conf: SparkConf, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    drop_older(log.parent, "spark-*.log", tuning.active.logs_kept_max)
    with log.open("ab") as file:
        # The JVM and its workers inherit the file, so nothing of theirs reaches a terminal.
        output = {"stdout": file, "stderr": subprocess.STDOUT}
        # Spark's scripts would start a Python to find its home; and the JVM that puts their command
        # together need not be cleverer than the one that it starts.
        home = variable("SPARK_HOME", str(_find_spark_home()))
        lean = default_variable("SPARK_LAUNCHER_OPTS", LEAN)
        driver = variable(DRIVER_VARIABLE, address_of().socket)
        with forking_to_execute(), home, lean, driver:
            gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call]
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm
    _own[:] = [gateway]
    _log_py4j(log)


def _preload() -> None:
    with suppress(ImportError):
        importlib.import_module("pandas")


@contextmanager
def forking_to_execute() -> Iterator[None]:
    """Keep Lance from warning of a fork: the child becomes another program at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        yield


def _log_py4j(log: Path) -> None:
    """Sends the log of py4j to the file, too, unless it has a handler already."""
    logger = logging.getLogger("py4j")
    if not logger.hasHandlers():
        handler = logging.FileHandler(log, delay=True)
        handler.setLevel(logging.WARNING)
        logger.addHandler(handler)
