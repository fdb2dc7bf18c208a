from pathlib import Path

import pytest


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Where a table of Lance can be made."""
    return tmp_path / "t"
