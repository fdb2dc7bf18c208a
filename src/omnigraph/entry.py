"""`og.open`: an embedded graph, or one behind a server, by its address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from omnigraph.errors import Code, InvalidInput

if TYPE_CHECKING:
    from omnigraph.embed.provider import Embedder
    from omnigraph.graph.facade import Graph
    from omnigraph.policy.authorization import Policy
    from omnigraph.runtime.settings import Settings

_SERVERS = ("http://", "https://")


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
    """Open a graph.

    Example:
        ```python
        og.init("friends.omni", schema="node Person { name: String @key }").close()
        with og.open("friends.omni", "r") as graph:
            assert graph.snapshot().counts == {"node:Person": 0}
        ```

    Args:
        uri: Where it lives: a directory, `s3://bucket/prefix`, or a server: see `connect`.
        mode: `rw`, or `r` for reading only: such a handle never writes, not even to recover.
        actor: Who works through this handle, for the history. A server takes it from the token.
        storage_options: How to reach S3; by default the usual `AWS_*` variables.
        embedder: What turns texts into vectors; by default what `OMNIGRAPH_EMBED_*` say.
        settings: Bounds; by default what `OMNIGRAPH_<SETTING>` say, such as
            `OMNIGRAPH_CACHE_BYTES_MAX`.
        policy: Decides on every access; by default everything is allowed.

    Raises:
        NotFound: There is no graph.
        InvalidInput: The mode or the place cannot be understood.
    """
    if isinstance(uri, str) and uri.lower().startswith(_SERVERS):
        if any(each is not None for each in (actor, storage_options, embedder, policy)):
            text = "a server has its own actor, storage_options, embedder and policy"
            raise InvalidInput(Code.INPUT_INVALID, text)
        # Opening a folder should not wait for this import.
        from omnigraph.client.connecting import connect  # noqa: PLC0415

        # Another class with the same calls: reaching a server needs no Arrow.
        return cast("Graph", cast(Any, connect(uri)))
    # This imports storage, for which remote graphs should not wait.
    from omnigraph.graph import opening  # noqa: PLC0415

    return opening.open(
        uri,
        mode,
        actor=actor,
        storage_options=storage_options,
        embedder=embedder,
        settings=settings,
        policy=policy,
    )
