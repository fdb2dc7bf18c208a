"""The context of an open graph, which the pieces of the facade share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.core.repository import Repository
from omnigraph.embed.source import Embeddings
from omnigraph.exec.access import QueryExecutor
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.mutate.mutator import Mutator
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.search.search import Search
from omnigraph.graph.plan_cache import PlanCache
from omnigraph.policy.authorization import ALLOW_ALL, Policy
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphContext:
    """The repository, the executors of queries, and what the caller chose.

    Attributes:
        variables: The environment, read when a call needs it: a Spark master, keys of S3.
        policy: Decides on every access.
        plan_caches: The compiled queries, by the digest of their schema.
    """

    repo: Repository
    clock: Clock
    settings: Settings
    variables: Mapping[str, str]
    views: ViewCache
    search: Search
    embeddings: Embeddings
    mutator: Mutator
    limits: Limits
    queries: QueryExecutor
    policy: Policy = ALLOW_ALL
    plan_caches: dict[str, PlanCache] = field(default_factory=dict)
