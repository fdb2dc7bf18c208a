"""A request on its way to the graph, and the answer on its way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.cancellation import CancelToken
from omnigraph.server.state import ServedGraph, Server
from omnigraph.server.streams import UNCOUNTED, Holding, Sink, Upload


@dataclass(slots=True, kw_only=True)
class RouteCall:
    """A request of an actor, checked and decoded.

    Attributes:
        server: The server.
        actor: The actor of the request.
        method: The method of HTTP.
        path: The parameters in the path.
        headers: The headers, in lower case.
        terms: The decoded query string.
        body: The decoded body; None where it is streamed or there is none.
        upload: The streamed body.
        spooled: Counts what of it goes to disk.
        cancel: Is cancelled when the client leaves.
    """

    server: Server
    actor: str
    method: str
    path: Mapping[str, str]
    headers: Mapping[str, str]
    terms: Any = None
    body: Any = None
    upload: Upload | None = None
    spooled: Holding = UNCOUNTED
    cancel: CancelToken = field(default_factory=CancelToken)

    @property
    def served(self) -> ServedGraph:
        """The graph as the server keeps it."""
        return self.server.graph(self.path["graph_id"])

    @property
    def graph(self) -> og.Graph:
        """The graph on behalf of the actor."""
        return self.served.acting_as(self.actor)

    @property
    def idempotency_key(self) -> str | None:
        """The key that names the operation, if the client gave one."""
        return self.headers.get("idempotency-key")

    @property
    def query_seconds(self) -> float:
        """The deadline of a query that names none."""
        return float(self.server.config.budgets.query_seconds)

    @property
    def public_uri(self) -> str:
        """The address of the graph as clients see it, not where it is stored."""
        return f"/graphs/{self.served.entry.id}"

    def expected_commit(self) -> str:
        """The commit that the client makes its write depend on.

        Raises:
            InvalidInput: The header is missing, or is not one raw id.
        """
        name = "omnigraph-if-graph-commit"
        value = self.headers.get(name, "").strip()
        if not value.isalnum():
            text = "the header `Omnigraph-If-Graph-Commit` holds one raw commit id"
            raise InvalidInput(Code.INPUT_INVALID, text)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is there as a whole: an object for JSON, or bytes."""

    body: Any = None
    status: int = 200
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """An answer that is written while it is sent."""

    write: Callable[[Sink], None]
    media: str = "application/x-ndjson"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[RouteCall], Reply | Streamed]
