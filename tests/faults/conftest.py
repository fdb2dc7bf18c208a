from pathlib import Path

import pytest

from omnigraph.core.engine import Engine
from omnigraph.testing import worlds
from tests.faults.harness import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder: Path = tmp_path_factory.mktemp("worlds")
    return Lab(folder)


@pytest.fixture
def world(lab: Lab) -> Path:
    return lab.copy(lab.template("base", worlds.make))


@pytest.fixture
def engine(world: Path) -> Engine:
    return worlds.open_world(world)
