"""Transactions of a graph behind a server.

Each call sends the statements so far, and the last one is answered; the end of the block sends all
of them to be committed. No server keeps anything in between. All requests are held to the commit
that the transaction began with, so that somebody else's commit to the branch is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from omnigraph.client.rows import RemoteRows
from omnigraph.client.transport import HttpTransport
from omnigraph.errors import Code, Conflict, GraphError, InvalidInput
from omnigraph.results.json_values import json_value
from omnigraph.results.transactions import (
    TransactionBlock,
    TransactionResult,
    TransactionState,
)
from omnigraph.results.wire import read_commit, read_warnings
from omnigraph.results.writes import MutationResult
from omnigraph.runtime.retry_policy import RetryPolicy, wait_seconds

T = TypeVar("T")


class RemoteTransaction(TransactionBlock):
    """An open transaction of a graph behind a server; see `Transaction`."""

    def __init__(
        self,
        transport: HttpTransport,
        path: str,
        terms: Mapping[str, Any],
        idempotency_key: str | None,
    ) -> None:
        """Use `graph.transaction` instead.

        Args:
            transport: Sends the requests.
            path: The address of the graph.
            terms: The branch, the message and the expected commit.
            idempotency_key: Names the operation.
        """
        super().__init__(str(terms["branch"]))
        self._transport = transport
        self._path = f"{path}/transaction"
        self._terms = dict(terms)
        self._key = idempotency_key
        self._changes: list[dict[str, Any]] = []

    def _begin(self) -> str:
        # With a key that is known, the state that its transaction ran on; else the newest one.
        return str(self._sent([], commit=False)["base"])

    def _commit(self) -> TransactionResult[None]:
        found = self._sent(self._changes, commit=True)
        return TransactionResult(
            commit=None if found["commit"] is None else read_commit(found["commit"]),
            affected_nodes=found["affected_nodes"],
            affected_edges=found["affected_edges"],
            value=None,
            replayed=found["replayed"],
            warnings=read_warnings(found["warnings"]),
            vectors_missing=found["vectors_missing"],
        )

    def mutate(
        self, text: str, params: Mapping[str, object] | None = None, *, name: str | None = None
    ) -> MutationResult:
        """Run a changing query on what the transaction has made so far."""
        return self._change({"mutate": text, "name": name, "params": json_value(params or {})})

    def load(
        self,
        source: object,
        mode: Literal["append", "merge"] = "append",
        *,
        format: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> MutationResult:
        """Load rows by their type into the transaction; its later queries see them.

        Raises:
            InvalidInput: It is something else than rows by type, such as a file.
        """
        self._require_open()
        if mode not in ("append", "merge"):
            text = f"a transaction loads by 'append' or 'merge', not {mode!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        is_rows = isinstance(source, Mapping) and all(
            isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)
            for rows in source.values()
        )
        if not is_rows or format is not None or storage_options is not None:
            text = "through a server, a transaction loads rows by type: {'Person': [{...}, ...]}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        return self._change({"rows": json_value(source), "mode": mode})

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        access: str = "auto",
        timeout: float | None = None,
        cancel: object = None,
    ) -> RemoteRows:
        """Run a reading query on the state that the transaction has made so far."""
        if cancel is not None:
            raise InvalidInput(Code.INPUT_INVALID, "`cancel` is for embedded graphs")
        self._require_open()
        asked = {"query": text, "name": name, "params": json_value(params or {})}
        found = self._tried([*self._changes, asked], timeout)

        def arrow() -> Any:
            raise InvalidInput(
                Code.INPUT_INVALID, "rows of a transaction through a server are no Arrow table"
            )

        return RemoteRows(found["columns"], found["column_types"], found["rows"], arrow)

    # -- inside ------------------------------------------------------------------------------------

    def _change(self, statement: dict[str, Any]) -> MutationResult:
        self._require_open()
        found = self._tried([*self._changes, statement], None)
        self._changes.append(statement)
        return MutationResult(
            affected_nodes=found["affected_nodes"],
            affected_edges=found["affected_edges"],
            commit=None,
        )

    def _tried(self, statements: list[dict[str, Any]], timeout: float | None) -> dict[str, Any]:
        """The answer to the last statement; nothing is committed."""
        try:
            found = self._sent(statements, commit=False, timeout=timeout)
        except GraphError as error:
            if error.details.pop("transaction", None) is not None or isinstance(error, Conflict):
                self._state = TransactionState.FAILED
            raise
        last: dict[str, Any] = found["results"][-1]
        return last

    def _sent(
        self, statements: list[dict[str, Any]], *, commit: bool, timeout: float | None = None
    ) -> dict[str, Any]:
        body = {
            **self._terms,
            "base": self._base,
            "statements": statements,
            "commit": commit,
            "timeout": timeout,
        }
        headers = {} if self._key is None else {"idempotency-key": self._key}
        found: dict[str, Any] = self._transport.request(
            "POST",
            self._path,
            body=body,
            headers=headers,
            is_safe=self._key is not None or not commit,
        ).json()
        return found


def transact(
    fn: Callable[[RemoteTransaction], T],
    make: Callable[[], RemoteTransaction],
    retries: int | None,
) -> TransactionResult[T]:
    """Run a function in a transaction, anew on the newest state when others came first."""
    if not callable(fn):
        raise InvalidInput(Code.INPUT_INVALID, "`transact` takes a function of a transaction")
    policy = RetryPolicy().with_retries(retries)
    tries = policy.retries + 1
    for attempt in range(1, tries + 1):
        tx = make()
        try:
            with tx:
                value = fn(tx)
        except Conflict as error:
            if error.code is not Code.HEAD_CONTENTION:
                raise
            if attempt == tries:
                error.details["attempts"] = attempt
                raise
            wait_seconds(policy.pause(attempt))
            continue
        return tx._result_with(value)
    raise AssertionError("the last attempt has returned or raised")
