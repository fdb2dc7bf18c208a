"""A graph behind a server, with the calls of `Graph`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, Self

from omnigraph.client.arguments import at_text, keyed, only_local
from omnigraph.client.bulk_data import MEDIA_TYPES, body_of, form_of
from omnigraph.client.history import RemoteBranches, RemoteChanges, RemoteCommits, RemoteTags
from omnigraph.client.remote_diff import RemoteDiff
from omnigraph.client.remote_maintenance import RemoteMaintenance, RemoteProfile
from omnigraph.client.remote_schema import RemoteSchema
from omnigraph.client.rows import RemoteRows
from omnigraph.client.sending import CountedBody, Listener, Transfer
from omnigraph.client.transport import HttpTransport, segment
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.results.changes import BlameLine, OperationName
from omnigraph.results.json_values import json_value
from omnigraph.results.wire import read_change, read_commit, read_load
from omnigraph.results.writes import ExportResult, LoadResult, MutationResult
from omnigraph.types import LoadMode

_PIECE_BYTES: Final = 1 << 20


class RemoteSnapshot:
    """A graph behind a server as of one commit."""

    def __init__(self, graph: RemoteGraph, found: Mapping[str, Any]) -> None:
        """Show a state; use `RemoteGraph.snapshot` instead."""
        self._graph = graph
        self.branch: str = found["graph_branch"]
        self.commit: str = found["graph_commit_id"]
        self.version: int = found["graph_manifest_version"]
        self.counts: Mapping[str, int] = {
            f"{item['entity_kind']}:{item['type_name']}": item["entity_count"]
            for item in found["datasets"]
        }

    def __repr__(self) -> str:
        return f"RemoteSnapshot(branch={self.branch!r}, commit={self.commit!r})"

    @property
    def schema(self) -> str:
        """The schema in force, as it was written."""
        return self._graph.schema.show(at=self.commit)

    def query(
        self, text: str, params: Mapping[str, object] | None = None, **terms: Any
    ) -> RemoteRows:
        """Run a reading query; see `Graph.query`."""
        return self._graph.query(text, params, at=self.commit, **terms)

    def explain(self, text: str, *, name: str | None = None) -> str:
        """The plan of a query and how it would reach the data, as text."""
        return self._graph.explain(text, name=name, at=self.commit)

    def profile(
        self, text: str, params: Mapping[str, object] | None = None, **terms: Any
    ) -> RemoteProfile:
        """Run a reading query and measure what it does; see `Graph.profile`."""
        return self._graph.profile(text, params, at=self.commit, **terms)


class RemoteGraph(RemoteMaintenance):
    """A graph behind a server. Safe to share between threads; a context manager.

    Made by `omnigraph.connect`. Calls, results and errors are those of `Graph`. What needs the
    stored data itself, such as Spark and algorithms, is refused.

    Attributes:
        branches: Make, list, merge and delete branches.
        tags: Names for commits.
        commits: The history.
        changes: The change feed.
        schema: Show and change the schema.
    """

    def __init__(
        self, transport: HttpTransport, url: str, graph_id: str, branch: str = "main"
    ) -> None:
        """Reach a graph; use `omnigraph.connect` instead."""
        super().__init__(transport, f"/graphs/{segment(graph_id)}", branch)
        self._url = url
        self._graph_id = graph_id
        self.branches = RemoteBranches(transport, self._path, branch)
        self.tags = RemoteTags(transport, self._path)
        self.commits = RemoteCommits(transport, self._path, branch, self.diff)
        self.changes = RemoteChanges(transport, self._path, branch)
        self.schema = RemoteSchema(transport, self._path, branch)

    def __repr__(self) -> str:
        return f"RemoteGraph({self.uri!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return f"{self._url}{self._path}"

    @property
    def mode(self) -> str:
        """`rw`: the server decides what may be changed."""
        return "rw"

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._transport.close()

    def branch(self, name: str) -> RemoteGraph:
        """The graph as one branch shows it: every call is for that branch if it names no other."""
        known = self.branches.show(name).name
        return RemoteGraph(self._transport, self._url, self._graph_id, known)

    # -- reading -----------------------------------------------------------------------------------

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
        timeout: float | None = None,
        **local: Any,
    ) -> RemoteRows:
        """Run a reading query; see `Graph.query`."""
        only_local(local)
        asked = self._asked(text, params, name, branch, at, timeout)
        answer = self._transport.request(
            "POST", f"{self._path}/query", body={**asked, "column_types": True}, is_safe=True
        ).json()

        def arrow() -> Any:
            commit = answer["graph_commit_id"]
            return self.query_arrow(text, params, name=name, at=commit, timeout=timeout)

        return RemoteRows(answer["columns"], answer["column_types"], answer["rows"], arrow)

    def query_arrow(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run a reading query, and get its rows as an Arrow table that the server made."""
        asked = self._asked(text, params, name, branch, at, timeout)
        return self._arrow(f"{self._path}/query", asked)

    def _arrow(self, path: str, asked: Mapping[str, Any]) -> Any:
        import pyarrow as pa  # noqa: PLC0415  # imported only when Arrow is needed

        headers = {"accept": MEDIA_TYPES["arrow"]}
        answer = self._transport.request("POST", path, body=asked, headers=headers, is_safe=True)
        return pa.ipc.open_stream(answer.body).read_all()

    def _asked(
        self,
        text: str,
        params: Mapping[str, object] | None,
        name: str | None,
        branch: str | None,
        at: str | datetime | None,
        timeout: float | None,
    ) -> dict[str, Any]:
        asked: dict[str, Any] = {"query": text, "params": json_value(params or {})}
        if at is not None:
            asked["snapshot"] = at_text(at)
        else:
            asked["branch"] = branch or self._branch
        if name is not None:
            asked["name"] = name
        if timeout is not None:
            asked["timeout"] = timeout
        return asked

    def explain(
        self,
        text: str,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
    ) -> str:
        """The plan of a query and how it would reach the data, as text."""
        asked = self._asked(text, None, name, branch, at, None)
        answer = self._transport.request("POST", f"{self._path}/explain", body=asked, is_safe=True)
        plan: str = answer.json()["plan"]
        return plan

    def profile(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
        **local: Any,
    ) -> RemoteProfile:
        """Run a reading query and measure what it does; see `Graph.profile`."""
        only_local(local)
        asked = self._asked(text, params, name, branch, at, None)

        def arrow() -> Any:
            return self.query_arrow(text, params, name=name, branch=branch, at=at)

        return RemoteProfile(self._post("profile", asked, is_safe=True), arrow)

    def snapshot(
        self,
        branch: str | None = None,
        *,
        at: str | datetime | None = None,
        version: int | None = None,
    ) -> RemoteSnapshot:
        """Pin one moment, to read several things of the same state."""
        terms = {"branch": branch or self._branch, "at": at_text(at), "version": version}
        found = self._transport.request("GET", f"{self._path}/snapshot", terms=terms).json()
        return RemoteSnapshot(self, found)

    def diff(
        self,
        older: str | datetime | RemoteSnapshot,
        newer: str | datetime | RemoteSnapshot | None = None,
        *,
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        kind: Literal["node", "edge"] | None = None,
    ) -> RemoteDiff:
        """Compare two states of the graph, entity by entity; see `Graph.diff`."""
        states = [
            each.commit if isinstance(each, RemoteSnapshot) else at_text(each)
            for each in (older, newer or self._branch)
        ]
        terms = {
            "type": types and list(types),
            "op": operations and sorted(operations),
            "kind": kind,
        }
        return RemoteDiff(self._transport, f"{self._path}/diff", states[0], states[1], terms)

    def blame(
        self,
        type_name: str,
        id: str,
        *,
        branch: str | None = None,
        at: str | datetime | None = None,
        limit: int | None = None,
    ) -> list[BlameLine]:
        """The commits that changed one entity, newest first; see `Graph.blame`."""
        terms = {
            "type": type_name,
            "id": id,
            "branch": branch or self._branch,
            "at": at_text(at),
        }
        found = self._transport.request(
            "GET", f"{self._path}/blame", terms={**terms, "limit": limit}
        ).json()
        return [
            BlameLine(
                commit=read_commit(item["commit"]),
                operation=item["op"],
                changed=tuple(item["changed"]),
            )
            for item in found["lines"]
        ]

    def read_blob(
        self,
        type_name: str,
        id: str,
        property_name: str,
        *,
        offset: int = 0,
        length: int | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
        entity: str = "node",
    ) -> bytes | None:
        """Bytes of one blob; None when it is null. See `Graph.read_blob`."""
        if length == 0:
            return b""
        terms = {"entity": entity, "type": type_name, "id": id, "property": property_name}
        place = {"snapshot": at_text(at)} if at else {"branch": branch or self._branch}
        last = "" if length is None else offset + length - 1
        headers = {} if (offset, length) == (0, None) else {"range": f"bytes={offset}-{last}"}
        try:
            return self._transport.request(
                "GET", f"{self._path}/blob", terms={**terms, **place}, headers=headers
            ).body
        except InvalidInput as error:
            if "range" in str(error):
                return b""
            raise
        except NotFound as error:
            if "has no" in str(error):
                return None
            raise

    def blob_size(
        self,
        type_name: str,
        id: str,
        property_name: str,
        *,
        branch: str | None = None,
        at: str | datetime | None = None,
        entity: str = "node",
    ) -> int | None:
        """The number of bytes of one blob; None when it is null. See `read_blob`."""
        terms = {"entity": entity, "type": type_name, "id": id, "property": property_name}
        place = {"snapshot": at_text(at)} if at else {"branch": branch or self._branch}
        try:
            found = self._transport.request("HEAD", f"{self._path}/blob", terms={**terms, **place})
        except NotFound:
            # The answer to HEAD has no text: reading nothing of it says what is missing.
            return (
                None
                if self.read_blob(
                    type_name, id, property_name, length=1, branch=branch, at=at, entity=entity
                )
                is None
                else 0
            )
        return int({name.lower(): value for name, value in found.headers.items()}["content-length"])

    # -- changing ----------------------------------------------------------------------------------

    def mutate(  # noqa: PLR0913
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        **local: Any,
    ) -> MutationResult:
        """Run a changing query: all of it is one commit, or nothing happens. See `Graph.mutate`."""
        only_local(local)
        asked = self._asked(text, params, name, branch, None, timeout)
        asked |= {"message": message, "retries": retries}
        headers = keyed(idempotency_key)
        path = f"{self._path}/mutate"
        if if_commit is not None:
            headers["omnigraph-if-graph-commit"] = if_commit
            path += "/if-graph-commit"
        return read_change(
            self._transport.request("POST", path, body=asked, headers=headers).json()
        )

    def load(  # noqa: PLR0913
        self,
        source: object,
        *,
        mode: LoadMode = "append",
        branch: str | None = None,
        create_from: str | None = None,
        replace: bool = False,
        cascade: bool = False,
        format: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        progress: Listener | None = None,
        violations_max: int = 1000,
        **local: Any,
    ) -> LoadResult:
        """Load data of any size: all of it in one commit, or nothing. See `Graph.load`.

        Files and binary streams are sent as they are read; one file or stream per call.

        Args:
            source: A file, a binary stream, a list of records, or one of these by its type.
            mode: `append`, `merge` or `overwrite`.
            branch: Which branch to change.
            create_from: Make the branch from this one if it is missing, in the same commit.
            replace: With `merge`: replace whole entities.
            cascade: With `overwrite`: drop edges of other types whose nodes are gone.
            format: `ndjson`, `arrow` or `parquet`, where a file's suffix does not show it.
            idempotency_key: Names the operation, so that repeating it does it once.
            message: What the commit is about.
            progress: Is called with a `Progress` while the data is sent, and at the end.
            violations_max: How many violations an error lists, at most 100,000.
            local: Arguments of a local load that a server decides itself are refused.
        """
        only_local(local)
        type_name, body, form, encoding = body_of(source, format)
        headers = {"content-type": MEDIA_TYPES[form], **keyed(idempotency_key)}
        if encoding is not None:
            headers["content-encoding"] = encoding
        terms = {
            "mode": mode,
            "branch": branch or self._branch,
            "from": create_from,
            "replace": replace,
            "cascade": cascade,
            "message": message,
            "type": type_name if form != "ndjson" else None,
            "violations_max": violations_max,
        }
        transfer = Transfer("load", progress)
        try:
            sent = CountedBody(body, transfer)
            answer = self._transport.request(
                "POST", f"{self._path}/load", terms=terms, body=sent, headers=headers
            )
        finally:
            if isinstance(source, str | os.PathLike) and hasattr(body, "close"):
                body.close()
        done = read_load(answer.json())
        transfer.report("commit", rows=done.rows, total=transfer.bytes)
        return done

    def export(
        self,
        target: str | os.PathLike[str] | Any,
        *,
        format: str | None = None,
        branch: str | None = None,
        at: str | datetime | None = None,
        types: Sequence[str] | None = None,
        compression: str | None = None,
        overwrite: bool = False,
        progress: Listener | None = None,
        **local: Any,
    ) -> ExportResult:
        """Write the entities of one commit to a file that `load` reads back; see `Graph.export`."""
        only_local(local)
        is_path = isinstance(target, str | os.PathLike)
        form = format or (form_of(os.fspath(target))[0] if is_path else "ndjson")
        packing = compression or (form_of(os.fspath(target))[1] if is_path else None) or "none"
        terms = {
            "branch": branch or self._branch,
            "at": at_text(at),
            "types": types and ",".join(types),
            "compression": packing,
        }
        if is_path and Path(target).exists() and not overwrite:
            text = f"{os.fspath(target)} exists; say overwrite=True to replace it"
            raise InvalidInput(Code.INPUT_INVALID, text)
        headers = {"accept": MEDIA_TYPES[form]}
        transfer = Transfer("export", progress)
        with self._transport.stream(
            "GET", f"{self._path}/export", terms=terms, headers=headers
        ) as response:
            commit = response.getheader("omnigraph-graph-commit", "")
            draft = f"{os.fspath(target)}.part" if is_path else ""
            file: Any = open(draft, "wb") if is_path else target  # noqa: SIM115
            try:
                while piece := response.read(_PIECE_BYTES):
                    file.write(piece)
                    transfer.add(len(piece), "write")
            finally:
                if is_path:
                    file.close()
        if is_path:
            Path(draft).replace(target)
        counts = self.snapshot(at=commit).counts
        rows = {key: each for key, each in counts.items() if _is_chosen(key, types)}
        transfer.report("write", rows=sum(rows.values()), total=transfer.bytes)
        return ExportResult(
            commit=commit,
            files=(os.fspath(target),) if is_path else ("-",),
            rows=rows,
            bytes=transfer.bytes,
            engine="server",
            reason="the graph is behind a server",
            seconds=transfer.seconds,
        )

    def queries(self) -> list[dict[str, Any]]:
        """The stored queries of the server, each with its parameters."""
        found = self._transport.request("GET", f"{self._path}/queries").json()
        listed: list[dict[str, Any]] = found["queries"]
        return listed

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        idempotency_key: str | None = None,
    ) -> RemoteRows | MutationResult:
        """Run a stored query by its name."""
        asked = {
            "params": json_value(params or {}),
            "branch": branch or self._branch,
            "column_types": True,
        }
        answer = self._transport.request(
            "POST",
            f"{self._path}/queries/{segment(name)}",
            body=asked,
            headers=keyed(idempotency_key),
        ).json()
        if "rows" in answer:
            path = f"{self._path}/queries/{segment(name)}"
            pinned = {"params": asked["params"], "snapshot": answer["graph_commit_id"]}

            def arrow() -> Any:
                return self._arrow(path, pinned)

            return RemoteRows(answer["columns"], answer["column_types"], answer["rows"], arrow)
        return read_change(answer)


def _is_chosen(key: str, types: Sequence[str] | None) -> bool:
    """True if a type (`node:Person`) is among those that are exported."""
    return types is None or key in types or key.partition(":")[2] in types
