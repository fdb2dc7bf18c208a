"""The parts of an open graph, which the pieces of the facade share."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The repository, those who run queries on it, and the variables of the environment."""

    repo: Repository
    clock: Clock
    variables: Mapping[str, str]
    views: ViewCache
    search: Search
    embeddings: Embeddings
    mutator: Mutator
    limits: Limits
    rent: Rent
