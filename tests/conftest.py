"""Settings that every test shares. Fixtures live beside the tests that use them."""

import atexit
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import tally

# Nobody's own cache is read or written, nor anybody's model asked.
_HOME = os.environ["OMNIGRAPH_HOME"] = tempfile.mkdtemp(prefix="omnigraph-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
# Making an archive of Spark takes longer than the tests that could use it.
os.environ["OMNIGRAPH_SPARK_ARCHIVE"] = "off"
os.environ.pop("OMNIGRAPH_SPARK_MASTER", None)
for _name in [name for name in os.environ if name.startswith("OMNIGRAPH_EMBED_")]:
    del os.environ[_name]

# Graphs of tests are in memory where there is room: what a test costs is then the work, and not the
# waiting for a disk. Tests that need a real disk make one.
_SHARED_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 8 << 30
if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SHARED_MEMORY))

# Reproducible: the same examples on every run, so a red test is about the change and not the day.
# No deadline: tests never judge speed.
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=50, print_blob=True
)
# For the night: new examples each time, many more of them.
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """In a distributed run one process has all tests that need Spark, or each would start a JVM."""
    # Such a run has the plugin.
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415

    def scope(nodeid: str) -> str:
        uses_spark = nodeid.startswith("tests/spark/") or "docs/spark.md" in nodeid
        return "spark" if uses_spark else nodeid

    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadScopeScheduling(config, log)
    # Not by marks: what the plugin does with them depends on the insides of pytest.
    scheduler._split_scope = scope
    return scheduler


_accidents: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Give the last report of a test the accidents that it has caused."""
    if call.when == "teardown" and (found := tally.taken()):
        item.user_properties.append((tally.KEY, found))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the accidents of a test up, in the process that tells about the whole run."""
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == tally.KEY and isinstance(value, dict):
                _accidents.update(value)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how many accidents of each kind the run has caused."""
    for name, count in sorted(_accidents.items()):
        terminalreporter.write_line(f"{count:>8,} {name}")
