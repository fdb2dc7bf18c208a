"""The calls of a graph that keep it in order over the years."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraph.errors import Code, InvalidInput
from omnigraph.graph.arguments import duration, seconds, token, whole_number
from omnigraph.graph.versioning.transaction_calls import TransactionCalls
from omnigraph.policy.authorization import Permission
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import MAIN, Actor, EngineChoice

if TYPE_CHECKING:
    from omnigraph.dataplane.progress import Progress
    from omnigraph.results.maintenance import CleanupResult, RepairResult, VerifyResult

_US = timedelta(microseconds=1)


class MaintenanceCalls(TransactionCalls):
    """Clean-up, verification and repair of an open graph."""

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
        that one decides. Commits stay in the history; reading the state of one that went
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
            dry_run: Remove nothing; return what would be removed.
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
        from omnigraph.core.cleanup.cleaner import CleanupRequest  # noqa: PLC0415
        from omnigraph.core.cleanup.retention import RetentionPolicy  # noqa: PLC0415
        from omnigraph.dataplane.progress import Monitor  # noqa: PLC0415
        from omnigraph.graph.maintenance.reports import cleanup_result  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.MAINTAIN, actor=who)
        age = duration(older_than, "older_than")
        if keep is None and age is None:
            text = "say which commits stay: the newest with `keep=`, the young with `older_than=`"
            raise InvalidInput(Code.INPUT_INVALID, text)
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

    def verify(
        self,
        depth: str = "metadata",
        *,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> VerifyResult:
        """Compare what the graph says about itself with what is stored; nothing is changed.

        Example:
            ```python
            found = graph.verify("rows")
            assert found.is_sound, found.findings
            ```

        Args:
            depth: `metadata`: branches, commits, schemas, published versions, row counts, forks and
                intents. `files`: every file that a stored version refers to is there, and is read
                and compared with its checksum, and so are indexes. `rows`: every row of every
                branch is read, ids are unique and edges lead to nodes that exist. Each includes
                those before it.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the tables.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            timeout: After how many seconds it ends with an error.
            cancel: The same, when another thread calls its `cancel()`.
        """
        from omnigraph.dataplane.verify.verifier import Depth  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        self._authorizer.ask(Permission.MAINTAIN)
        self._repo.require_open()
        try:
            chosen = Depth(depth)
        except ValueError:
            text = f"depth is one of {', '.join(Depth)}, not {depth!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text) from None
        execution = Execution.checked(engine, spark, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            return Bulk.of(self._parts).verify(chosen, execution)

    def repair(
        self, *, dry_run: bool = False, force: bool = False, actor: str | None = None
    ) -> RepairResult:
        """Settle tables that are further than what is published, because of another tool.

        `recover` takes back what writers of this graph left. What another tool has committed to a
        table is judged by its transactions: if they only rewrote fragments or built indexes, the
        rows are the same and the table is published as it is. Anything else is left alone and
        reported, unless `force` says to take it as it is. Files that are missing are reported, too:
        nothing but a backup brings them back.

        Example:
            ```python
            assert graph.repair(dry_run=True).tables == ()
            ```

        Args:
            dry_run: Change nothing; return what was found.
            force: Publish tables whose rows another tool has changed, too. Nothing checks them
                against the rules of the schema; `verify` does afterwards.
            actor: Who does it; the actor of the handle if not given.

        Raises:
            RecoveryRequired: A write is under way, or waits for recovery.
            Forbidden: The handle is for reading only.
        """
        from omnigraph.core.maintenance.verify import irreparable  # noqa: PLC0415
        from omnigraph.core.storage_errors import storage_errors  # noqa: PLC0415
        from omnigraph.graph.maintenance.reports import repair_result  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.MAINTAIN, actor=who)
        found, made = self._repo.repair(dry_run=bool(dry_run), force=bool(force), actor=who)
        with storage_errors():
            flaws = irreparable(self._repo)
        return repair_result(found, made, flaws, dry_run=bool(dry_run))
