"""Reads that the event loop answers itself, because a thread would take longer to take them over.

Handing a request to a thread and its answer back costs about twice what it takes to look up an
entity. So a query that was answered at once, by a thread, is answered by the loop when it comes
again: as long as the branch has not moved, for only then is everything that it reads in memory, and
only if the graph lies on this machine, for the loop must not wait for a network. It gets a few
milliseconds; if it takes longer, it is begun again on a thread, and stays there for a moment:
perhaps it only loaded what later ones find in memory. If it is soon late again, it stays longer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.graph.snapshot import Snapshot, is_newest
from omnigraph.runtime.clock import Clock, ProcessorClock

# What a read may have taken on a thread, and what it may take on the loop: processor time, for what
# it reads is in memory, and a busy machine is not its fault.
WORK: Final[Clock] = ProcessorClock()
SHORT_NS: Final = 2_000_000
LOOP_SECONDS: Final = 0.01
_PAUSE_NS: Final = 50_000_000
_PAUSE_NS_MAX: Final = 10_000_000_000
_PAUSE_GROWTH: Final = 5
_STATES_MAX: Final = 256
_QUERIES_MAX: Final = 1_024

_State = tuple[str, str | None]
_Query = tuple[str, str | None]


class WarmReads:
    """The queries of one graph that are answered at once, by actor and branch. Thread-safe."""

    def __init__(self, clock: Clock, *, is_near: bool) -> None:
        """Know none; of a graph that is not local, none is ever known."""
        self._clock = clock
        self._is_near = is_near
        self._lock = threading.Lock()
        self._known: OrderedDict[_State, tuple[Snapshot, set[_Query]]] = OrderedDict()
        # When a query took too long, and how long it is left to the threads since then.
        self._late: OrderedDict[_Query, tuple[int, int]] = OrderedDict()

    def find(self, actor: str, branch: str | None, query: _Query) -> Snapshot | None:
        """The newest state of a branch, if a query is answered at once there; None if not."""
        known = self._known.get((actor, branch))
        if known is None or query not in known[1] or not is_newest(known[0]):
            return None
        return known[0]

    def note(
        self, actor: str, branch: str | None, query: _Query, pinned: Snapshot, took_ns: int
    ) -> None:
        """Remember how long a query took on a thread, at a state that was the newest."""
        if took_ns > SHORT_NS or not self._is_near:
            return
        late = self._late.get(query)
        if late is not None and self._clock.ticks_ns() - late[0] < late[1]:
            return
        with self._lock:
            known = self._known.get((actor, branch))
            if known is None or known[0] is not pinned:
                self._known[actor, branch] = pinned, {query}
                while len(self._known) > _STATES_MAX:
                    self._known.popitem(last=False)
            elif len(known[1]) < _QUERIES_MAX:
                known[1].add(query)

    def forget(self, query: _Query) -> None:
        """Leave a query to the threads for a while: it took too long."""
        with self._lock:
            now = self._clock.ticks_ns()
            before, pause = self._late.get(query, (now, 0))
            is_again = pause > 0 and now - before < 2 * _PAUSE_NS_MAX
            longer = min(pause * _PAUSE_GROWTH, _PAUSE_NS_MAX) if is_again else _PAUSE_NS
            self._late[query] = now, longer
            self._late.move_to_end(query)
            while len(self._late) > _QUERIES_MAX:
                self._late.popitem(last=False)
            for _, queries in self._known.values():
                queries.discard(query)
