"""This graph, through its public interface; only the filling takes the write path below it."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.query.engines import Ask

GRAPH: Final = "graph.omni"


class Ours:
    """OmniGraph."""

    def load(self, data: Path, home: Path) -> None:
        """One commit for everything, then the indexes."""
        importlib.import_module("bench.query.engines.fill").fill(data, home / GRAPH)

    def open(self, home: Path) -> Mapping[str, Ask]:
        """Open for reading, as the base install does it."""
        sys.meta_path.insert(0, _WithoutPandas())
        omnigraph = importlib.import_module("omnigraph")
        questions = importlib.import_module("bench.query.questions").QUESTIONS
        graph = omnigraph.open(str(home / GRAPH), mode="r")
        return {item.name: _asking(graph, item.text) for item in questions}


class _WithoutPandas(importlib.abc.MetaPathFinder):
    """Where pandas is installed, Arrow loads it at once; the base install has none."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Say that there is no pandas; leave the rest to others."""
        if name == "pandas":
            raise ModuleNotFoundError("not in the base install", name=name)


def _asking(graph: Any, text: str) -> Ask:
    def ask(params: Mapping[str, Any]) -> Any:
        return list(graph.query(text, params))

    return ask
