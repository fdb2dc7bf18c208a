"""The settings of a session that we start: what made it start fast and stay quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from omnigraph.dataplane.spark.config import MasterKind

# Where the driver's process listens, for processes that the JVM starts beside the driver.
DRIVER_VARIABLE: Final = "OMNIGRAPH_SPARK_DRIVER"
_LOOPBACK: Final = "127.0.0.1"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# The work is done by Python; the JVM only schedules, so it needs neither a clever collector nor
# the second compiler, which would take seconds of the start.
LEAN: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_SILENT: Final = "-Xlog:disable -Xlog:all=off"


def settings_for(
    place: MasterKind,
    master: str,
    *,
    archive: Path | None = None,
    chosen: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The settings for a session at a master.

    Args:
        place: What kind of place that is.
        master: The master.
        archive: A class-data archive to start from.
        chosen: What the caller chose. It wins, except that options for Java are added up.
    """
    options = [LEAN]
    if archive is not None:
        options += [f"-XX:SharedArchiveFile={archive}", _SILENT]
    found = {
        "spark.app.name": "omnigraph",
        "spark.master": master,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Otherwise a Python data source that takes filters is refused.
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if place is not MasterKind.CLUSTER or _is_loopback(master):
        found["spark.driver.host"] = found["spark.driver.bindAddress"] = _LOOPBACK
    if place in {MasterKind.LOCAL, MasterKind.SERVED}:
        found["spark.sql.shuffle.partitions"] = str(2 * len(os.sched_getaffinity(0)))
    given = dict(chosen or {})
    options.append(given.pop(_JAVA_OPTIONS, ""))
    return {**found, _JAVA_OPTIONS: " ".join(options).strip(), **given}


def _is_loopback(master: str) -> bool:
    hosts = master.removeprefix("spark://").split(",")
    return all(host.partition(":")[0] in {_LOOPBACK, "localhost"} for host in hosts)


def default_variable(name: str, value: str) -> AbstractContextManager[None]:
    """Set a variable of the environment for a while, unless it has a value."""
    return variable(name, os.environ.get(name) or value)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
