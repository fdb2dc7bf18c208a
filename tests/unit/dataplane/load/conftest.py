from pathlib import Path

import pytest

from tests.unit.dataplane.load.support import Lab, lab_at


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return lab_at(tmp_path)
