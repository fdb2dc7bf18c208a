import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.core.repository import Repository
from omnigraph.store.root import Root
from tests.conformance.seaweed import serving
from tests.faults import worlds
from tests.faults.harness import Lab
from tests.faults.slow_server import SlowServer, slow_server
from tests.faults.whole_graphs import Workshop

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def ramdisk() -> Iterator[Path]:
    """A folder in memory where the machine has one: thousands of graphs are put there and removed.

    Faults are caused above the file system, so which one it is makes no difference to them.
    """
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="omnigraph-") as folder:
        yield Path(folder)


@pytest.fixture
def folder(ramdisk: Path) -> Iterator[Path]:
    """A folder in memory for one test."""
    with tempfile.TemporaryDirectory(dir=ramdisk) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def lab(ramdisk: Path) -> Lab:
    folder = ramdisk / "worlds"
    folder.mkdir()
    return Lab(folder)


@pytest.fixture(scope="session")
def workshop(ramdisk: Path) -> Workshop:
    return Workshop(Root.parse(str(ramdisk / "whole")))


@pytest.fixture
def world(lab: Lab) -> Path:
    return lab.copy(lab.template("base", worlds.make))


@pytest.fixture
def repo(world: Path) -> Repository:
    return worlds.open_world(world)


@pytest.fixture(scope="session")
def s3_options(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """How to reach a running S3 server, shared by the workers of the run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    with serving(shared / "seaweed") as options:
        yield options


@pytest.fixture(scope="session")
def server(s3_options: dict[str, str]) -> Iterator[SlowServer]:
    """A proxy in front of the S3 server."""
    with slow_server(s3_options["aws_endpoint"]) as front:
        yield front
