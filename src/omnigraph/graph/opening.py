"""Making and opening graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.retry import RetryPolicy
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.embed.provider import Embedder
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.access import QueryExecutor
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.mutate.mutator import Mutator
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.search.search import Search
from omnigraph.graph.arguments import instance
from omnigraph.graph.context import GraphContext
from omnigraph.graph.facade import Graph
from omnigraph.lang import compile_schema
from omnigraph.policy.authorization import ALLOW_ALL, Policy
from omnigraph.runtime import environment
from omnigraph.runtime.settings import Settings
from omnigraph.store.root import Root

_SCHEMA_SUFFIX = ".pg"


def init(
    uri: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedder: Embedder | None = None,
    settings: Settings | None = None,
    policy: Policy | None = None,
) -> Graph:
    """Make a new graph and open it.

    Example:
        ```python
        graph = og.init("friends.omni", schema="node Person { name: String @key }")
        ```

    Args:
        uri: A directory that is empty or not there yet, or `s3://bucket/prefix`.
        schema: The schema, as text or as the path of a `.pg` file.
        actor: Who works through this handle, for the history.
        storage_options: How to reach S3; by default the usual `AWS_*` variables.
        embedder: What turns texts into vectors; by default what `OMNIGRAPH_EMBED_*` say.
        settings: Bounds; by default what `OMNIGRAPH_<SETTING>` say, such as
            `OMNIGRAPH_CACHE_BYTES_MAX`.
        policy: Decides on every access; by default everything is allowed.

    Raises:
        InvalidInput: The schema has mistakes; it lists all of them. Or the place holds other files.
        Conflict: There is a graph already.
    """
    from omnigraph.graph.schema import schema_text  # noqa: PLC0415

    text, origin = schema_text(schema)
    accepted = AcceptedSchema(catalog=compile_schema(text, origin), text=text)
    root = graph_root(uri, storage_options)
    repo = Repository.init(root, accepted, components(root), actor)
    return _graph(repo, actor, embedder, settings, policy)


def open(
    uri: str | os.PathLike[str],
    mode: str = "rw",
    *,
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedder: Embedder | None = None,
    settings: Settings | None = None,
    policy: Policy | None = None,
) -> Graph:
    """Open an embedded graph; see `omnigraph.open`."""
    try:
        chosen = OpenMode(mode)
    except ValueError:
        message = f"mode {mode!r} is not one of 'rw' and 'r'"
        raise InvalidInput(Code.INPUT_INVALID, message, mode=str(mode)) from None
    root = graph_root(uri, storage_options)
    repo = Repository.open(root, components(root), chosen)
    return _graph(repo, actor, embedder, settings, policy)


def graph_root(uri: str | os.PathLike[str], options: Mapping[str, str] | None) -> Root:
    """The place of a graph, with the options to reach it."""
    try:
        place = os.fspath(uri)
    except TypeError:
        message = f"a graph is opened by its path or URI, not by {type(uri).__name__}"
        raise InvalidInput(Code.INPUT_INVALID, message) from None
    if options is None:
        return Root.parse(place, environment.storage_options(place, os.environ))
    instance(options, Mapping, "storage options are a dictionary")
    return Root.parse(place, options)


def _graph(
    repo: Repository,
    actor: str | None,
    embedder: Embedder | None,
    settings: Settings | None,
    policy: Policy | None = None,
) -> Graph:
    if settings is not None:
        instance(settings, Settings, "settings are an `omnigraph.Settings`")
    if embedder is not None and not callable(getattr(embedder, "embed", None)):
        raise InvalidInput(Code.SETTINGS_INVALID, "an embedder has a `model` and `embed`")
    if policy is not None and not callable(getattr(policy, "authorise", None)):
        raise InvalidInput(Code.SETTINGS_INVALID, "a policy has a method `authorise`")
    bounds = environment.settings(os.environ) if settings is None else settings
    repo.retry = RetryPolicy(retries=bounds.write_retries, long_retries=bounds.optimize_retries)
    embeddings = Embeddings(lambda: embedder or _configured_embedder())
    views = ViewCache(
        repo,
        bytes_max=bounds.cache_bytes_max,
        query_bytes_max=bounds.query_bytes_max,
        folder=environment.cache_folder(os.environ),
    )
    search = Search(embeddings)
    limits = Limits(frame_rows_max=bounds.frame_rows_max, bytes_max=bounds.query_bytes_max)
    parts = GraphContext(
        repo=repo,
        clock=repo.clock,
        settings=bounds,
        variables=os.environ,
        views=views,
        search=search,
        embeddings=embeddings,
        mutator=Mutator(repo, embeddings),
        limits=limits,
        queries=QueryExecutor(repo, views, search, limits),
        policy=policy or ALLOW_ALL,
    )
    return Graph(parts, actor=actor)


def _configured_embedder() -> Embedder | None:
    """The embedder of the environment. A graph that never embeds imports no provider."""
    from omnigraph.embed.config import configured_embedder  # noqa: PLC0415

    return configured_embedder(os.environ)
