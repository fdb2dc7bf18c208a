"""Maintenance and transactions of a graph behind a server; what only embedded graphs can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from omnigraph.client.arguments import only_local
from omnigraph.client.remote_transaction import RemoteTransaction, transact
from omnigraph.client.rows import RemoteRows
from omnigraph.client.transport import HttpTransport
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.read.profile_entries import ProfileEntry, profile_text
from omnigraph.results.maintenance import CleanupResult, RepairResult, VerifyResult
from omnigraph.results.maintenance_wire import (
    read_cleanup,
    read_embed,
    read_indices,
    read_optimize,
    read_recovery,
    read_repair,
    read_verify,
)
from omnigraph.results.recovery import RecoveryResult
from omnigraph.results.transactions import TransactionResult
from omnigraph.results.writes import EmbedResult, IndexResult, OptimizeResult
from omnigraph.types import CommitId, CommitMessage, IdempotencyKey

T = TypeVar("T")


class RemoteProfile:
    """A query that a server has run and measured; printed, it is a table.

    Attributes:
        entries: The operators in the order in which they ran.
        path: What the entities were read from, in a word.
        rows: The result of the query.
        restarts: Why the query had to begin again, each time that it had to.
    """

    def __init__(self, found: Mapping[str, Any], arrow: Callable[[], Any]) -> None:
        """Hold what the server answered."""
        self.entries = [ProfileEntry(**each) for each in found["steps"]]
        self.path: str = found["path"]
        self.rows = RemoteRows(found["columns"], found["column_types"], found["rows"], arrow)
        self.restarts: list[str] = found["restarts"]

    def __str__(self) -> str:
        return profile_text(self.path, self.restarts, self.entries)


class RemoteMaintenance:
    """The calls of maintenance and of transactions; `RemoteGraph` has the others."""

    def __init__(self, transport: HttpTransport, path: str, branch: str) -> None:
        """Call by requests."""
        self._transport = transport
        self._path = path
        self._branch = branch

    def _post(self, path: str, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._transport.request(
            "POST", f"{self._path}/{path}", body=body, **more
        ).json()
        return found

    # -- transactions ------------------------------------------------------------------------------

    def transaction(
        self,
        branch: str | None = None,
        *,
        message: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> RemoteTransaction:
        """Open a transaction: queries and changes on one state of a branch, and one commit.

        The statements are sent again with each call, and nothing stays on the server in between.
        Any commit of others to the branch meanwhile is a conflict. See `Graph.transaction`.
        """
        only_local({"actor": actor})
        known = branch or self._branch
        terms = {
            "branch": known,
            "message": None if message is None else CommitMessage(message),
            "if_commit": None if if_commit is None else CommitId(if_commit),
        }
        key = None if idempotency_key is None else IdempotencyKey(idempotency_key)
        return RemoteTransaction(self._transport, self._path, terms, key)

    def transact(
        self,
        fn: Callable[[RemoteTransaction], T],
        *,
        branch: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        retries: int | None = None,
    ) -> TransactionResult[T]:
        """Run a function in a transaction; when others came first, run it again. See `Graph`."""

        def make() -> RemoteTransaction:
            return self.transaction(
                branch, message=message, actor=actor, idempotency_key=idempotency_key
            )

        return transact(fn, make, retries)

    # -- maintenance -------------------------------------------------------------------------------

    def ensure_indices(
        self, *, branch: str | None = None, message: str | None = None, **local: Any
    ) -> IndexResult:
        """Build every index that is missing or damaged; one commit, or none."""
        only_local(local)
        asked = {"branch": branch or self._branch, "message": message}
        return read_indices(self._post("indices", asked))

    def optimize(
        self, *, branch: str | None = None, message: str | None = None, **local: Any
    ) -> OptimizeResult:
        """Compact tables and bring indexes up to date; see `Graph.optimize`."""
        only_local(local)
        asked = {"branch": branch or self._branch, "message": message}
        return read_optimize(self._post("optimize", asked))

    def recover(self) -> RecoveryResult:
        """Settle what dead writers left behind; see `Graph.recover`."""
        return read_recovery(self._post("recover", {}))

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        dry_run: bool = False,
        set_aside: bool = False,
        **local: Any,
    ) -> CleanupResult:
        """Remove old states of the graph, and what none of the others needs; `Graph.cleanup`."""
        only_local(local)
        if isinstance(older_than, timedelta):
            older_than = f"{int(older_than.total_seconds())}s"
        asked = {"keep": keep, "older_than": older_than, "dry_run": dry_run}
        return read_cleanup(self._post("cleanup", {**asked, "set_aside": set_aside}))

    def verify(self, depth: str = "metadata", **local: Any) -> VerifyResult:
        """Compare what the graph says about itself with what is stored; see `Graph.verify`."""
        only_local(local)
        return read_verify(self._post("verify", {"depth": depth}, is_safe=True))

    def repair(self, *, dry_run: bool = False, force: bool = False, **local: Any) -> RepairResult:
        """Settle tables that are further than what is published; see `Graph.repair`."""
        only_local(local)
        return read_repair(self._post("repair", {"dry_run": dry_run, "force": force}))

    def embed(
        self,
        *,
        missing: bool = True,
        types: Sequence[str] | None = None,
        branch: str | None = None,
        batch: int | None = None,
        message: str | None = None,
        **local: Any,
    ) -> EmbedResult:
        """Compute vectors that are missing from their texts, on the server; see `Graph.embed`."""
        only_local(local)
        asked = {
            "missing": missing,
            "types": None if types is None else list(types),
            "branch": branch or self._branch,
            "batch": batch,
            "message": message,
        }
        return read_embed(self._post("embed", asked))

    def refresh(self) -> None:
        """Do nothing: a server sees the newest state with every request."""

    # -- embedded graphs only ----------------------------------------------------------------------

    @property
    def algorithms(self) -> NoReturn:
        """Refused: algorithms run where the graph is stored."""
        raise _only_embedded("algorithms")

    def acting_as(self, actor: str | None) -> NoReturn:
        """Refused: a server knows the actor by the token."""
        raise _only_embedded("acting_as")

    def copy_to(self, target: object, **terms: Any) -> NoReturn:
        """Refused: files are copied where they are stored."""
        raise _only_embedded("copy_to")

    def to_spark(self, *args: Any, **terms: Any) -> NoReturn:
        """Refused: Spark reads the stored files."""
        raise _only_embedded("to_spark")

    def vertices(self, *args: Any, **terms: Any) -> NoReturn:
        """Refused: Spark reads the stored files."""
        raise _only_embedded("vertices")

    def edges(self, *args: Any, **terms: Any) -> NoReturn:
        """Refused: Spark reads the stored files."""
        raise _only_embedded("edges")

    def stream_sink(self, *args: Any, **terms: Any) -> NoReturn:
        """Refused: Spark writes to the store."""
        raise _only_embedded("stream_sink")


def _only_embedded(call: str) -> InvalidInput:
    """The error of a call of embedded graphs."""
    text = f"`{call}` works where a graph is stored, not through a server; open it by its address"
    return InvalidInput(Code.INPUT_INVALID, text, call=call)
