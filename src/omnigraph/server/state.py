"""The state of a running server: its graphs, threads, actors and numbers."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import omnigraph as og
from omnigraph.errors import Busy, Code, GraphError, NotFound, Unavailable
from omnigraph.policy.authorization import ALLOW_ALL, AccessRequest, Permission, Policy
from omnigraph.runtime.clock import Clock, SystemClock
from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.server.admission import Admission
from omnigraph.server.auth import Authenticator, TokenFile
from omnigraph.server.config import GraphEntry, ServerConfig
from omnigraph.server.identity import JwtIssuer
from omnigraph.server.notes import warn
from omnigraph.server.stored_queries import StoredQueries
from omnigraph.server.threads import Threads
from omnigraph.server.warm_reads import WarmReads

Pool = Literal["read", "write", "bulk", "events"]
_HANDLES_MAX: Final = 256
_RETRY_NS: Final = 5_000_000_000


class ServedGraph:
    """One graph of a server: opened when it can be, and again after it could not. Thread-safe."""

    def __init__(
        self,
        entry: GraphEntry,
        policy: Policy,
        clock: Clock,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Open a graph, or remember why that failed."""
        self.entry = entry
        self._storage_options = storage_options
        self.queries = StoredQueries(entry.queries)
        self.warm = WarmReads(clock, is_near="://" not in entry.uri)
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._graph: og.Graph | None = None
        self._handles: OrderedDict[str, og.Graph] = OrderedDict()
        self._failed_at: int | None = None
        self.failure: str | None = None
        self._open()

    @property
    def is_ready(self) -> bool:
        """True if it is open."""
        return self._graph is not None

    def acting_as(self, actor: str) -> og.Graph:
        """The graph on behalf of an actor.

        Raises:
            Unavailable: It could not be opened.
        """
        known = self._handles.get(actor)
        if known is not None:
            return known
        with self._lock:
            if self._graph is None and self._clock.ticks_ns() - (self._failed_at or 0) > _RETRY_NS:
                self._open()
            if self._graph is None:
                text = f"graph '{self.entry.id}' cannot be opened now; the server tries again"
                raise Unavailable(Code.UNAVAILABLE, text, graph=self.entry.id)
            handle = self._graph.acting_as(actor)
            self._handles[actor] = handle
            while len(self._handles) > _HANDLES_MAX:
                self._handles.popitem(last=False)
            return handle

    def _open(self) -> None:
        try:
            self._graph = og.open(
                self.entry.uri, policy=self._policy, storage_options=self._storage_options
            )
            self.failure = None
        except GraphError as error:
            self._failed_at = self._clock.ticks_ns()
            if self.failure != str(error):
                self.failure = str(error)
                warn(graph=self.entry.id, failure=self.failure)

    def close(self) -> None:
        """Close it."""
        if self._graph is not None:
            self._graph.close()


@dataclass(slots=True)
class Metrics:
    """The numbers of a server, in the text format of Prometheus."""

    worker: int = 0
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    bytes_in: int = 0
    bytes_out: int = 0
    cancelled: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, route: str, status: int, nanoseconds: int) -> None:
        """Count an answer."""
        with self.lock:
            self.requests[route, status] += 1
            self.seconds[route] += nanoseconds

    def text(self, waiting: dict[str, int], held: dict[str, int]) -> str:
        """All numbers. Each process of a server has its own, under the label `worker`."""
        lines: list[str] = []

        def say(name: str, kind: str, found: Iterable[tuple[dict[str, object], object]]) -> None:
            lines.append(f"# TYPE omnigraph_{name} {kind}")
            for labels, number in found:
                shown = {**labels, "worker": self.worker}
                text = ",".join(f'{label}="{value}"' for label, value in shown.items())
                lines.append(f"omnigraph_{name}{{{text}}} {number}")

        with self.lock:
            counted = sorted(self.requests.items())
            took = sorted(self.seconds.items())
        say(
            "requests_total",
            "counter",
            (({"route": route, "status": status}, number) for (route, status), number in counted),
        )
        say(
            "request_seconds_total",
            "counter",
            (({"route": route}, f"{nanoseconds / 1e9:.6f}") for route, nanoseconds in took),
        )
        say("bytes_received_total", "counter", [({}, self.bytes_in)])
        say("bytes_sent_total", "counter", [({}, self.bytes_out)])
        say("requests_cancelled_total", "counter", [({}, self.cancelled)])
        say("requests_refused_total", "counter", [({}, self.refused)])
        say("pool_in_use", "gauge", [({"pool": name}, n) for name, n in waiting.items()])
        say("held_bytes", "gauge", [({"place": name}, n) for name, n in held.items()])
        return "\n".join(lines) + "\n"


class BackgroundWork(Protocol):
    """Work that outlives its requests."""

    def stop(self) -> None:
        """Interrupt it; the next server resumes it."""

    def close(self) -> None:
        """Close it, after the threads have ended."""


class Server:
    """Everything that the routes of a server share."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        policy: Policy = ALLOW_ALL,
        clock: Clock | None = None,
        ids: Ids | None = None,
        workers: int = 1,
        worker: int = 0,
        log: Callable[[bytes], None] | None = None,
    ) -> None:
        """Open the graphs of a configuration, as one of so many processes.

        `log` takes a line about each request.
        """
        self.config = config
        self.log = log
        self.clock = clock or SystemClock()
        self.ids = ids or UlidIds(self.clock)
        self.policy = policy
        tokens = None if config.tokens is None else TokenFile(config.tokens, self.clock)
        issuer = None if config.jwt is None else JwtIssuer(config.jwt, self.clock)
        self.authenticator = Authenticator(tokens, issuer)
        bounds = config.budgets
        self.admission = Admission(
            self.clock, per_second=bounds.requests_per_second, workers=workers
        )
        self.metrics = Metrics(worker=worker)
        self.graphs = {
            each.id: ServedGraph(each, policy, self.clock, self.storage_options(each.uri))
            for each in config.graphs
        }
        sizes = {
            "read": bounds.read_threads,
            "write": bounds.write_threads,
            "bulk": bounds.bulk_threads,
            # They wait most of the time, and nobody should wait for them.
            "events": bounds.event_streams,
        }
        self.pools = {name: Threads(size, f"omnigraph-{name}") for name, size in sizes.items()}
        self.in_use: Counter[str] = Counter()
        self._bounds = {name: size + bounds.waiting for name, size in sizes.items()}
        self._bounds["events"] = bounds.event_streams
        self.is_ending = False
        # The jobs, where the server has a folder for them; they know the server themselves.
        self.jobs: BackgroundWork | None = None

    def graph(self, graph_id: str) -> ServedGraph:
        """One of the graphs.

        Raises:
            NotFound: There is none of this id.
        """
        found = self.graphs.get(graph_id)
        if found is None:
            raise NotFound(Code.NOT_FOUND, f"graph '{graph_id[:64]}' not found")
        return found

    def storage_options(self, uri: str) -> Mapping[str, str] | None:
        """The options that reach a place; None for the usual ones."""
        return self.config.storage if uri.startswith("s3://") else None

    def authorise(self, actor: str, permission: Permission, **fields: Any) -> None:
        """Ask the policy about an action that is no call of a graph."""
        self.policy.authorise(AccessRequest(actor, permission, **fields))

    def enter(self, pool: Pool) -> None:
        """Take a place before the threads of a pool.

        Raises:
            Busy: Too many wait already.
        """
        if self.in_use[pool] >= self._bounds[pool]:
            text = f"too many requests wait for the threads of `{pool}`"
            raise Busy(Code.BUSY, text, limit=f"{pool}_waiting", retry_after=1)
        self.in_use[pool] += 1

    def leave(self, pool: Pool) -> None:
        """Give the place back."""
        self.in_use[pool] -= 1

    def close(self) -> None:
        """End the threads, after their work, and close the graphs."""
        self.is_ending = True
        if self.jobs is not None:
            self.jobs.stop()
        for pool in self.pools.values():
            pool.shutdown()
        if self.jobs is not None:
            self.jobs.close()
            self.jobs = None
        for served in self.graphs.values():
            served.close()
