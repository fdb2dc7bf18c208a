from pathlib import Path

import pytest

from tests.faults.harness import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder: Path = tmp_path_factory.mktemp("worlds")
    return Lab(folder)
