"""An empty graph on disk."""

from pathlib import Path

import pytest

from omnigraph.core.repository import Repository
from omnigraph.store.root import Root
from tests.graphs import make


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def graph(root: Root) -> Repository:
    return make(root)
