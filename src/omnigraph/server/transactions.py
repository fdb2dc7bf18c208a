"""The route of transactions: one request carries all statements, so no server keeps a session.

A client that must see an answer before it goes on sends what it has so far with `commit` false, and
everything again with the next statement. `base` holds all of that to one state of the branch.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import omnigraph as og
from omnigraph.errors import Code, Conflict, GraphError, InvalidInput, PreconditionFailed
from omnigraph.results.json_values import json_value
from omnigraph.results.wire import CommitOutput, WarningOutput, commit_json, warnings_json
from omnigraph.server.call import Reply, RouteCall
from omnigraph.server.requests import StatementInput, TransactionInput


class StatementOutput(TypedDict):
    """The effect of one statement, or the rows that it found."""

    affected_nodes: NotRequired[int]
    affected_edges: NotRequired[int]
    columns: NotRequired[list[str]]
    column_types: NotRequired[list[str]]
    rows: NotRequired[list[dict[str, Any]]]


class TransactionOutput(TypedDict):
    """The answer of a transaction."""

    branch: str
    base: str
    results: list[StatementOutput]
    affected_nodes: int
    affected_edges: int
    commit: CommitOutput | None
    replayed: bool
    warnings: list[WarningOutput]
    vectors_missing: int
    graph_commit_id: NotRequired[str]


def transaction(call: RouteCall) -> Reply:
    """Run statements on one state of a branch; all of their changes are one commit, or none."""
    asked: TransactionInput = call.body
    tx = call.graph.transaction(
        asked.branch,
        message=asked.message,
        if_commit=asked.if_commit or (asked.base if asked.commit else None),
        idempotency_key=call.idempotency_key,
    )
    try:
        with tx:
            if asked.base is not None and tx.base != asked.base:
                raise _overtaken(tx, asked.base)
            results = [_run(call, tx, each, asked) for each in asked.statements]
            base = tx.base
            if not asked.commit:
                tx.rollback()
    except PreconditionFailed as error:
        if asked.if_commit is not None or asked.base is None:
            raise
        raise _overtaken(tx, asked.base) from error
    except GraphError as error:
        if tx.state == "failed":
            error.details["transaction"] = tx.state
        raise
    done = tx.result if asked.commit else None
    commit = None if done is None or done.commit is None else done.commit
    found: TransactionOutput = {
        "branch": tx.branch,
        "base": base,
        "results": results,
        "affected_nodes": 0 if done is None else done.affected_nodes,
        "affected_edges": 0 if done is None else done.affected_edges,
        "commit": None if commit is None else commit_json(commit),
        "replayed": done is not None and done.replayed,
        "warnings": [] if done is None else warnings_json(done.warnings),
        "vectors_missing": 0 if done is None else done.vectors_missing,
    }
    if commit is not None:
        found["graph_commit_id"] = commit.id
    return Reply(body=found)


def _overtaken(tx: og.Transaction, base: str) -> Conflict:
    text = f"others have committed to branch {tx.branch} since {base}; start over"
    return Conflict(Code.HEAD_CONTENTION, text, branch=tx.branch, expected=base)


def _run(
    call: RouteCall, tx: og.Transaction, asked: StatementInput, whole: TransactionInput
) -> StatementOutput:
    if sum(each is not None for each in (asked.query, asked.mutate, asked.rows)) != 1:
        text = "a statement has one of `query`, `mutate` and `rows`"
        raise InvalidInput(Code.INPUT_INVALID, text)
    if asked.rows is not None:
        return _touched(tx.load(asked.rows, asked.mode))
    if asked.mutate is not None:
        return _touched(tx.mutate(asked.mutate, asked.params, name=asked.name))
    text = asked.query or ""
    seconds = whole.timeout or call.query_seconds
    rows = tx.query(text, asked.params, name=asked.name, timeout=seconds, cancel=call.cancel)
    return {
        "columns": list(rows.columns),
        "column_types": [str(each) for each in rows.types],
        "rows": [json_value(row) for row in rows],
    }


def _touched(done: og.MutationResult) -> StatementOutput:
    return {"affected_nodes": done.affected_nodes, "affected_edges": done.affected_edges}
