"""The facade: one open graph and everything that can be done with it."""

from omnigraph.graph.facade import Graph
from omnigraph.graph.opening import init, open

__all__ = ["Graph", "init", "open"]
