"""A graph that is slow and obviously right: dictionaries, loops and the words of the plans.

`evaluate` answers a reading plan and `apply` carries out a changing one, both straight from the
docstrings of `omnigraph.lang.ir`. The engine must give the same answers. Nothing here is shared
with it but the compiler.
"""

from __future__ import annotations

from omnigraph.testing.naive.graph import ModelGraph, Row
from omnigraph.testing.naive.read import evaluate
from omnigraph.testing.naive.rules import Broken, Refused
from omnigraph.testing.naive.scope import Given
from omnigraph.testing.naive.write import Outcome, apply

__all__ = ["Broken", "Given", "ModelGraph", "Outcome", "Refused", "Row", "apply", "evaluate"]
