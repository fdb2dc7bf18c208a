"""The calls of a graph that keep it in order over the years."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy
from omnigraph.dataplane.progress import Monitor, Progress
from omnigraph.errors import Code, InvalidInput
from omnigraph.graph.arguments import duration, seconds, token, whole_number
from omnigraph.graph.cleaning import cleanup_result
from omnigraph.graph.transaction_calls import TransactionCalls
from omnigraph.policy.door import Permission
from omnigraph.results.upkeep import CleanupResult
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import MAIN, Actor

_US = timedelta(microseconds=1)


class UpkeepCalls(TransactionCalls):
    """Clean-up of an open graph."""

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        dry_run: bool = False,
        set_aside: bool = False,
        actor: str | None = None,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> CleanupResult:
        """Remove old states of the graph, and every file that none of the others needs.

        What stays: the newest state of each branch, what `keep` and `older_than` say, tags, the
        states that branches will be merged by, and what exports and feeds at work are reading.
        A commit goes if it is beyond `keep` and older than `older_than`; with one of them alone,
        that one decides. Commits stay in the history; whoever asks for the state of one that went
        gets `Gone`. A version that was the newest within the last minutes stays until the next
        time, and so does what a writer at work may have just written.

        Example:
            ```python
            found = graph.cleanup(keep=10, older_than="30d", dry_run=True)
            print(f"{found.versions} versions, {found.bytes:,} bytes")
            graph.cleanup(keep=10, older_than="30d")
            ```

        Args:
            keep: How many of the newest commits of each branch stay.
            older_than: Commits younger than this stay: a `timedelta`, or a text such as `7d`,
                `12h` or `30m`.
            dry_run: Remove nothing, and tell what would go.
            set_aside: Files that were set aside more than a day ago go, too.
            actor: Who does it; the actor of the handle if not given.
            progress: Is called with a `Progress` while it goes on.
            timeout: After how many seconds it ends with an error; what went is gone.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: Neither `keep` nor `older_than` is given.
            Busy: Another process cleans up.
            Forbidden: The handle is for reading only.
        """
        age = duration(older_than, "older_than")
        if keep is None and age is None:
            text = "say which commits stay: the newest with `keep=`, the young with `older_than=`"
            raise InvalidInput(Code.INPUT_INVALID, text)
        who = self._actor if actor is None else Actor(actor)
        self._door.ask(Permission.MAINTAIN, actor=who)
        now = self._parts.clock.now_us()
        policy = RetentionPolicy(
            keep=1 if keep is None else whole_number(keep, "keep", 1),
            since_us=None if age is None else now - age // _US,
        )
        request = CleanupRequest(
            policy=policy,
            set_aside=bool(set_aside),
            dry_run=bool(dry_run),
            actor=who,
        )
        monitor = Monitor("cleanup", "inprocess", "", self._parts.clock, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            done = self._repo.cleanup(request, monitor.stage)
        tables = self._repo.snapshot(MAIN).tables.values()
        keys = {pin.path: pin.table_key for pin in tables}
        return cleanup_result(done, keys, dry_run=request.dry_run)
