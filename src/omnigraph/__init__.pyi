"""The public surface, for type checkers; the module itself loads these names on first use."""

from omnigraph import errors as errors
from omnigraph.exec.embed.provider import Embedder as Embedder
from omnigraph.exec.read.profile import Profile as Profile
from omnigraph.exec.read.rows import Rows as Rows
from omnigraph.graph.facade import Graph as Graph
from omnigraph.graph.opening import init as init
from omnigraph.graph.opening import open as open
from omnigraph.graph.snapshot import Snapshot as Snapshot
from omnigraph.graph.values import Branch as Branch
from omnigraph.graph.values import Commit as Commit
from omnigraph.graph.values import IndexResult as IndexResult
from omnigraph.graph.values import MutationResult as MutationResult
from omnigraph.runtime.settings import Settings as Settings

__all__ = [
    "Branch",
    "Commit",
    "Embedder",
    "Graph",
    "IndexResult",
    "MutationResult",
    "Profile",
    "Rows",
    "Settings",
    "Snapshot",
    "__version__",
    "errors",
    "init",
    "open",
]

__version__: str
