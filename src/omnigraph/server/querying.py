"""Routes that read and change by queries: inline ones and stored ones."""

from __future__ import annotations

import re
from typing import Any, Final, NotRequired, TypedDict

import pyarrow as pa

import omnigraph as og
from omnigraph.errors import Code, InvalidInput, LimitExceeded
from omnigraph.lang import compile_schema
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.compile import QueryCompiler
from omnigraph.lang.values import Base
from omnigraph.policy.authorization import Permission
from omnigraph.results.json_values import json_value
from omnigraph.results.wire import ChangeOutput, change_json
from omnigraph.runtime.cancellation import WorkLimit, limited
from omnigraph.server.call import Reply, RouteCall
from omnigraph.server.requests import ChangeInput, InvokeInput, QueryInput, ReadInput
from omnigraph.server.warm_reads import LOOP_SECONDS, WORK

ARROW = "application/vnd.apache.arrow.stream"
# The name of the first query of a text: comments and space may come before it.
_NAME: Final = re.compile(
    r"(?:\s|//[^\n]*+|/\*.*?\*/)*+query(?:\s|//[^\n]*+|/\*.*?\*/)++(\w+)", re.DOTALL
)
# Values that JSON says otherwise than Python does.
_ODD: Final = frozenset({Base.DATETIME, Base.DATE, Base.ENTITY, Base.BLOB})


class ReadTarget(TypedDict):
    """The state that a query has read."""

    branch: NotRequired[str]
    snapshot: NotRequired[str]


class OldReadOutput(TypedDict):
    """The answer of a reading query, without the commit that it has read."""

    query_name: str
    target: ReadTarget
    row_count: int
    columns: list[str]
    rows: list[dict[str, Any]]


class ReadOutput(OldReadOutput):
    """The answer of a reading query."""

    graph_commit_id: str
    column_types: NotRequired[list[str]]


class ProfileStep(TypedDict):
    """One step of a profiled query."""

    label: str
    rows: int
    nanoseconds: int


class ProfileOutput(TypedDict):
    """A profiled query: its rows, and what each step did."""

    path: str
    restarts: list[str]
    steps: list[ProfileStep]
    columns: list[str]
    column_types: list[str]
    rows: list[dict[str, Any]]


class QueriesOutput(TypedDict):
    """The stored queries of a graph."""

    queries: list[dict[str, Any]]


def query(call: RouteCall) -> Reply:
    """Run a reading query."""
    asked: QueryInput = call.body
    seconds = asked.timeout or call.query_seconds
    if asked.snapshot is not None:
        return _read(call, asked.query, asked.name, asked, seconds)
    pinned = call.graph.snapshot(asked.branch)
    begin = WORK.ticks_ns()
    with limited(call.server.clock, seconds, call.cancel):
        reply = _read_at(call, pinned, asked.query, asked.name, asked)
    took = WORK.ticks_ns() - begin
    call.served.warm.note(call.actor, asked.branch, (asked.query, asked.name), pinned, took)
    return reply


def read(call: RouteCall) -> Reply:
    """Run a reading query, by the names that its fields had before."""
    asked: ReadInput = call.body
    call.body = QueryInput(
        query=asked.query_source,
        name=asked.query_name,
        params=asked.params,
        branch=asked.branch,
        snapshot=asked.snapshot,
    )
    reply = query(call)
    if isinstance(reply.body, dict):
        del reply.body["graph_commit_id"]
    return reply


def query_at_once(call: RouteCall) -> Reply | None:
    """Run a reading query here and now; None if it could take long."""
    asked: QueryInput = call.body
    if asked.snapshot is not None:
        return None
    warm, known = call.served.warm, (asked.query, asked.name)
    pinned = warm.find(call.actor, asked.branch, known)
    if pinned is None:
        return None
    try:
        with WorkLimit(LOOP_SECONDS):
            return _read_at(call, pinned, asked.query, asked.name, asked)
    except LimitExceeded as error:
        if error.code is not Code.TIMEOUT:
            raise
    warm.forget(known)
    return None


def _read(
    call: RouteCall, text: str, name: str | None, asked: QueryInput | InvokeInput, seconds: float
) -> Reply:
    if asked.branch is not None and asked.snapshot is not None:
        raise InvalidInput(Code.INPUT_INVALID, "give either a branch or a snapshot, not both")
    pinned = call.graph.snapshot(asked.branch, at=asked.snapshot)
    with limited(call.server.clock, seconds, call.cancel):
        return _read_at(call, pinned, text, name, asked)


def _read_at(
    call: RouteCall,
    pinned: og.Snapshot,
    text: str,
    name: str | None,
    asked: QueryInput | InvokeInput,
) -> Reply:
    """Read within limits: the values, too, so nothing is left to read without them."""
    rows = pinned.query(text, asked.params, name=name)
    if ARROW in call.headers.get("accept", ""):
        headers = {"omnigraph-graph-commit": pinned.commit}
        return Reply(body=_arrow(rows.to_arrow()), media=ARROW, headers=headers)
    target: ReadTarget = (
        {"branch": pinned.branch} if asked.snapshot is None else {"snapshot": asked.snapshot}
    )
    found: ReadOutput = {
        "query_name": name or _only_name(text),
        "target": target,
        "row_count": len(rows),
        "columns": list(rows.columns),
        "rows": _plain_rows(rows),
        "graph_commit_id": pinned.commit,
    }
    if asked.column_types:
        found["column_types"] = [str(each) for each in rows.types]
    return Reply(body=found)


def _plain_rows(rows: og.Rows) -> list[dict[str, Any]]:
    """The rows as JSON can say them; most need no work, for the encoder knows dates."""
    if any(each.base in _ODD for each in rows.types):
        return [json_value(row) for row in rows]
    return list(rows)


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _only_name(text: str) -> str:
    """The name of the only query of a text that has compiled."""
    found = _NAME.match(text)
    if found is not None:
        return found[1][:256]
    return text.partition("query")[2].partition("(")[0].strip()[:256]


def mutate(call: RouteCall) -> Reply:
    """Run a changing query."""
    return _change(call, None)


def mutate_if(call: RouteCall) -> Reply:
    """Run a changing query if a commit is still the newest one."""
    return _change(call, call.expected_commit())


def _change(call: RouteCall, if_commit: str | None) -> Reply:
    asked: ChangeInput = call.body
    done = call.graph.mutate(
        asked.query,
        asked.params,
        name=asked.name,
        branch=asked.branch,
        if_commit=if_commit,
        idempotency_key=call.idempotency_key,
        message=asked.message,
        timeout=asked.timeout,
        retries=asked.retries,
    )
    return Reply(body=_changed(call, done, asked.branch, asked.name or _only_name(asked.query)))


def _changed(
    call: RouteCall, done: og.MutationResult, branch: str | None, name: str
) -> ChangeOutput:
    version = None if done.commit is None else call.graph.commits.version(done.commit.id)
    return change_json(done, branch or "main", name, version)


def list_queries(call: RouteCall) -> Reply:
    """List the stored queries, each with its parameters, as descriptions of tools."""
    catalog = compile_schema(call.graph.schema.show())
    found: QueriesOutput = {"queries": call.served.queries.listed(catalog)}
    return Reply(body=found)


def invoke(call: RouteCall) -> Reply:
    """Run a stored query."""
    return _invoke(call, None)


def invoke_if(call: RouteCall) -> Reply:
    """Run a stored changing query if a commit is still the newest one."""
    return _invoke(call, call.expected_commit())


def _invoke(call: RouteCall, if_commit: str | None) -> Reply:
    asked: InvokeInput = call.body or InvokeInput()
    name = call.path["name"]
    call.server.authorise(call.actor, Permission.INVOKE_QUERY, branch=asked.branch, query=name)
    stored = call.served.queries.get(name)
    catalog = compile_schema(call.graph.schema.show(asked.branch, at=asked.snapshot))
    plan = QueryCompiler(catalog).compile(stored.text, name)
    changes = isinstance(plan, MutationPlan)
    if asked.expect_mutation is not None and asked.expect_mutation is not changes:
        text = f"query `{name}` {'changes the graph' if changes else 'only reads'}"
        raise InvalidInput(Code.QUERY_INVALID, text, query=name)
    if not changes:
        if if_commit is not None:
            raise InvalidInput(Code.QUERY_INVALID, f"query `{name}` only reads", query=name)
        return _read(call, stored.text, name, asked, call.query_seconds)
    if asked.snapshot is not None:
        raise InvalidInput(Code.INPUT_INVALID, "a snapshot cannot be changed; name a branch")
    done = call.graph.mutate(
        stored.text,
        asked.params,
        name=name,
        branch=asked.branch,
        if_commit=if_commit,
        idempotency_key=call.idempotency_key,
        message=asked.message,
    )
    return Reply(body=_changed(call, done, asked.branch, name))


def explain(call: RouteCall) -> Reply:
    """Show how a query would run."""
    asked: QueryInput = call.body
    text = call.graph.explain(asked.query, name=asked.name, branch=asked.branch, at=asked.snapshot)
    return Reply(body={"plan": text})


def profile(call: RouteCall) -> Reply:
    """Run a query and report what each step did."""
    asked: QueryInput = call.body
    done = call.graph.profile(
        asked.query, asked.params, name=asked.name, branch=asked.branch, at=asked.snapshot
    )
    found: ProfileOutput = {
        "path": str(done.path),
        "restarts": list(done.restarts),
        "steps": [
            {"label": each.label, "rows": each.rows, "nanoseconds": each.nanoseconds}
            for each in done.entries
        ],
        "columns": list(done.rows.columns),
        "column_types": [str(each) for each in done.rows.types],
        "rows": _plain_rows(done.rows),
    }
    return Reply(body=found)
