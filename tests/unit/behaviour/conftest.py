"""Graphs that tests of behaviour share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.behaviour import Make
from tests.behaviour import people as make_people


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside of the test is read or written."""
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    for name in ("OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    """A graph that is only read."""
    with make_people(tmp_path_factory.mktemp("people")) as graph:
        yield graph


@pytest.fixture
def own_people(tmp_path: Path) -> Iterator[og.Graph]:
    """The same graph, to be changed."""
    with make_people(tmp_path) as graph:
        yield graph


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes graphs by schema."""
    made: list[og.Graph] = []

    def build(schema: str) -> og.Graph:
        made.append(og.init(tmp_path / f"g{len(made)}.omni", schema))
        return made[-1]

    maker: Callable[[str], og.Graph] = build
    yield maker
    for graph in made:
        graph.close()
