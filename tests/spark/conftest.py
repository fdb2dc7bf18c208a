"""Sessions for tests: one JVM per process of the test run, started when the first test wants it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.dataplane.spark.config import SparkConfig, configured
from omnigraph.dataplane.spark.session import HeldSession, acquire, stop_all

ROOT = Path(__file__).parents[2]
# They start one JVM after another, so they run with the long suites.
LONG = {
    "test_clusters",
    "test_connect",
    "test_denied",
    "test_distributed_loads",
    "test_driver_faults",
    "test_everywhere",
    "test_isolated_cluster",
    "test_local_cluster",
    "test_memory",
    "test_query_kills",
    "test_runner",
    "test_session",
    "test_unshared",
    "test_worker_python",
}

# Workers of Spark import the tasks of these tests.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem in LONG:
            item.add_marker(pytest.mark.deep)


@pytest.fixture(scope="session", autouse=True)
def _no_jvm_is_left() -> Iterator[None]:
    yield
    stop_all()


@pytest.fixture
def local_config() -> SparkConfig:
    return configured("local[2,3]")


@pytest.fixture
def local(local_config: SparkConfig) -> Iterator[HeldSession]:
    """The session of this machine: the same one for every test, unless a test needed another."""
    with acquire(local_config) as held:
        yield held
