"""What an open graph is made of; the facade's pieces share it."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.repository import Repository
from omnigraph.embed.source import Embeddings
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.mutate.mutator import Mutator
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.search.engine import Search
from omnigraph.graph.access import Rent
from omnigraph.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The repo and those who run queries on it."""

    repo: Repository
    clock: Clock
    views: ViewCache
    search: Search
    embeddings: Embeddings
    mutator: Mutator
    limits: Limits
    rent: Rent
