"""The class-data archive: what the JVM has learnt in one start, kept for the next.

With it a session starts in about half the time. Making one takes a JVM of its own and some twenty
seconds of a processor, so it is made by a process aside, at the lowest priority, after the first
use of Spark. It is written under another name and renamed when it is whole.

Run as a module, this is the process that makes it.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Final

from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.config import LOCAL, MasterKind, SparkConfig
from omnigraph.dataplane.spark.java import Java, find_java
from omnigraph.dataplane.spark.settings import settings_for
from omnigraph.dataplane.spark.shipping import drop_older

# Classes of the Connect server are wanted, too: one archive serves both.
_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"


def archive_of(config: SparkConfig) -> Path:
    """The file of the archive for a configuration."""
    java = find_java(config.variables)
    return archive_file(config.home / "cache", java, config.variables.get("SPARK_HOME", ""))


def archive_file(cache: Path, java: Java, spark_home: str) -> Path:
    """The file of the archive for this Spark and this Java."""
    spark = importlib.metadata.version("pyspark")
    # The JVM compares the paths of everything that it was made from.
    made_of = (str(java.path.resolve()), spark_home, sys.prefix)
    digest = blake2b("\0".join(made_of).encode(), digest_size=4).hexdigest()
    return cache / f"spark-{spark}-java-{java.version}-{digest}.jsa"


def make_aside(archive: Path) -> None:
    """Begin to make an archive, in a process that outlives this one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph.dataplane.spark.archive", str(archive)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # It is not waited for; so there is no warning that it still runs.
    process.returncode = 0


def make(archive: Path) -> bool:
    """Make an archive, unless it is there or another process is at it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.with_suffix(".lock"), "a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if archive.exists():
            return False
        new = archive.with_suffix(".new")
        new.unlink(missing_ok=True)
        try:
            _train(new, archive.with_suffix(".log"))
            if not new.exists() or new.stat().st_size < tuning.active.archive_bytes_min:
                return False
            new.replace(archive)
            drop_older(archive.parent, "spark-*.jsa", tuning.active.archives_kept_max)
            return True
        finally:
            new.unlink(missing_ok=True)


def _train(new: Path, log: Path) -> None:
    """Do once what every session does first; the JVM writes the archive as it ends."""
    from omnigraph.dataplane.spark import launch  # noqa: PLC0415 - only here Spark is needed
    from omnigraph.dataplane.spark.kernel import MESSAGE, ItemKernel  # noqa: PLC0415

    learn = f"-XX:ArchiveClassesAtExit={new} -Xlog:disable -Xlog:all=off"
    settings = settings_for(
        MasterKind.LOCAL,
        LOCAL,
        chosen={
            "spark.driver.extraJavaOptions": learn,
            "spark.plugins": _PLUGIN,
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.grpc.binding.address": "127.0.0.1",
        },
    )
    session = launch.start(settings, log)
    try:
        from pyspark import cloudpickle  # noqa: PLC0415

        kernel = ItemKernel(abs, [1, -1], cloudpickle.dumps)
        session.range(0, 2, 1, 2).mapInArrow(kernel, MESSAGE).collect()
        session.range(10).count()  # what Spark compiles itself
    finally:
        launch.stop(session)
        launch.shut_down(tuning.active.training_timeout_s)


if __name__ == "__main__":
    os.nice(19)
    make(Path(sys.argv[1]))
