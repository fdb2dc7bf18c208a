"""The schema of a graph behind a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.client.arguments import keyed, only_local
from omnigraph.client.transport import HttpTransport
from omnigraph.errors import Code, NotFound
from omnigraph.results.schema_change import SchemaChange
from omnigraph.results.wire import read_commit


class RemoteSchema:
    """The schema; with the calls of `graph.schema`."""

    def __init__(self, transport: HttpTransport, path: str, branch: str) -> None:
        """Show and change it by requests."""
        self._transport = transport
        self._path = path
        self._branch = branch

    def show(self, branch: str | None = None, *, at: str | None = None) -> str:
        """The schema in force, as it was written."""
        terms = {"branch": branch or self._branch, "at": at}
        found = self._transport.request("GET", f"{self._path}/schema", terms=terms).json()
        return str(found["schema_source"])

    def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        branch: str | None = None,
        queries: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        allow_data_loss: bool = False,
    ) -> SchemaChange:
        """Return what `apply` would do, and what stands in its way. Writes nothing.

        Queries are checked here: the server does not see their files.
        """
        body = {
            "schema_source": _text(schema),
            "branch": branch or self._branch,
            "allow_data_loss": allow_data_loss,
        }
        answer = self._transport.request(
            "POST", f"{self._path}/schema/plan", body=body, is_safe=True
        )
        return replace(_change(answer.json()), broken_queries=_broken(queries, _text(schema)))

    def apply(
        self,
        schema: str | os.PathLike[str],
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        dry_run: bool = False,
        if_commit: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **local: Any,
    ) -> SchemaChange:
        """Change the schema of a branch; one commit, or nothing. See `graph.schema.apply`.

        What a server decides itself, as its engine, is refused.
        """
        only_local(local)
        if dry_run:
            return self.plan(schema, branch=branch, allow_data_loss=allow_data_loss)
        body = {
            "schema_source": _text(schema),
            "branch": branch or self._branch,
            "message": message,
            "allow_data_loss": allow_data_loss,
        }
        headers = keyed(idempotency_key)
        if if_commit is not None:
            headers["omnigraph-if-graph-commit"] = if_commit
        answer = self._transport.request(
            "POST", f"{self._path}/schema/apply", body=body, headers=headers
        )
        return _change(answer.json())


def _broken(
    queries: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], schema: str
) -> Mapping[str, tuple[str, ...]]:
    if queries == ():
        return {}
    # Only who has queries waits for the compiler.
    from omnigraph.lang import compile_schema  # noqa: PLC0415
    from omnigraph.results.query_checks import broken_queries  # noqa: PLC0415

    return broken_queries(queries, compile_schema(schema))


def _text(schema: str | os.PathLike[str]) -> str:
    if isinstance(schema, str) and (not schema.endswith(".pg") or "{" in schema):
        return schema
    try:
        return Path(schema).read_text(encoding="utf-8")
    except OSError as error:
        text = f"there is no schema file {os.fspath(schema)}"
        raise NotFound(Code.FILE_NOT_FOUND, text, path=os.fspath(schema)) from error


def _change(found: Mapping[str, Any]) -> SchemaChange:
    commit = found["commit"]
    return SchemaChange(
        supported=found["supported"],
        steps=tuple(found["steps"]),
        notes=tuple(found["notes"]),
        rows=found["rows"],
        violations=tuple(found["violations"]),
        violation_count=found["violation_count"],
        broken_queries={},
        commit=None if commit is None else read_commit(commit),
        replayed=found.get("replayed", False),
    )
