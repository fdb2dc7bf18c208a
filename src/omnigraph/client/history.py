"""Branches, tags, commits and the change feed of a graph behind a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from omnigraph.client.arguments import at_text, keyed
from omnigraph.client.remote_diff import RemoteDiff
from omnigraph.client.resolving import RemoteResolving
from omnigraph.client.transport import HttpTransport, segment
from omnigraph.exec.merge.resolution_file import Resolution
from omnigraph.results.changes import Change, ChangeEvent, ChangePage, OperationName
from omnigraph.results.commits import Branch, Commit, Tag, time_of
from omnigraph.results.merging import MergeResult, ResetResult
from omnigraph.results.wire import (
    read_branch,
    read_commit,
    read_counts,
    read_entity_change,
    read_merge,
    read_tag,
)
from omnigraph.runtime.clock import SystemClock

_PAGE_COMMITS = 500


class RemoteBranches:
    """The branches; with the calls of `graph.branches`."""

    def __init__(self, transport: HttpTransport, path: str, branch: str) -> None:
        """Show and change them by requests."""
        self._transport = transport
        self._path = f"{path}/branches"
        self._branch = branch

    def _post(self, path: str, body: Mapping[str, Any], key: str | None) -> Any:
        answer = self._transport.request(
            "POST", f"{self._path}{path}", body=body, headers=keyed(key)
        )
        return answer.json()

    def create(
        self,
        name: str,
        from_: str = "main",
        *,
        at: str | datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Make a branch."""
        body = {"name": name, "from": from_, "at": at_text(at)}
        return read_branch(self._post("", body, idempotency_key))

    def list(self) -> list[str]:
        """The names of all branches, sorted."""
        found = self._transport.request("GET", self._path).json()
        return [str(name) for name in found["branches"]]

    def show(self, name: str) -> Branch:
        """One branch."""
        path = f"{self._path}/{segment(name)}"
        return read_branch(self._transport.request("GET", path).json())

    def delete(
        self, name: str, *, if_head: str | None = None, idempotency_key: str | None = None
    ) -> None:
        """Delete a branch; its commits that no other branch shares go with it."""
        path, terms = f"{self._path}/{segment(name)}", {"if_head": if_head}
        self._transport.request("DELETE", path, terms=terms, headers=keyed(idempotency_key))

    def rename(
        self,
        name: str,
        to: str,
        *,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Give a branch another name; see `Branches.rename`."""
        body = {"branch": name, "to": to, "message": message}
        return read_branch(self._post("/rename", body, idempotency_key))

    def protect(
        self, name: str, *, message: str | None = None, idempotency_key: str | None = None
    ) -> Branch:
        """Protect a branch: it is neither deleted, renamed nor reset."""
        body = {"branch": name, "message": message}
        return read_branch(self._post("/protect", body, idempotency_key))

    def unprotect(
        self, name: str, *, message: str | None = None, idempotency_key: str | None = None
    ) -> Branch:
        """Protect a branch no longer."""
        body = {"branch": name, "protected": False, "message": message}
        return read_branch(self._post("/protect", body, idempotency_key))

    def merge(
        self,
        source: str,
        into: str = "main",
        *,
        resolve: Resolution | None = None,
        granularity: Literal["property", "row"] = "property",
        dry_run: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Bring the changes of one branch into another; see `Branches.merge`."""
        body = {
            "source": source,
            "target": into,
            "granularity": granularity,
            "delete_branch": delete_branch,
            "message": message,
        }

        def ask(more: Mapping[str, Any]) -> MergeResult:
            return read_merge(self._post("/merge", {**body, **more}, idempotency_key))

        resolving = RemoteResolving(ask, lambda: [self.show(each).head for each in (source, into)])
        return resolving.run(resolve, dry_run=dry_run)

    def reset(
        self,
        name: str,
        to: str | datetime,
        *,
        if_head: str | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ResetResult:
        """Give a branch the state of an older commit back; see `Branches.reset`."""
        body = {"branch": name, "to": at_text(to), "if_head": if_head, "dry_run": dry_run}
        found = self._post("/reset", {**body, "message": message}, idempotency_key)
        return ResetResult(
            branch=found["branch"],
            to=found["to"],
            former_head=found["former_head"],
            commit=None if found["commit"] is None else read_commit(found["commit"]),
            counts=read_counts(found["counts"]),
            replayed=found["replayed"],
        )

    def revert(
        self,
        commit: str | datetime,
        branch: str | None = None,
        *,
        resolve: Resolution | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Take back what a commit changed; see `Branches.revert`."""
        known = branch or self._branch
        body = {"commit": at_text(commit), "branch": known, "message": message}

        def ask(more: Mapping[str, Any]) -> MergeResult:
            return read_merge(self._post("/revert", {**body, **more}, idempotency_key))

        resolving = RemoteResolving(ask, lambda: [self.show(known).head])
        return resolving.run(resolve, dry_run=dry_run)


class RemoteTags:
    """The tags; with the calls of `graph.tags`."""

    def __init__(self, transport: HttpTransport, path: str) -> None:
        """Show and change them by requests."""
        self._transport = transport
        self._path = f"{path}/tags"

    def create(
        self,
        name: str,
        at: str | datetime = "main",
        *,
        message: str | None = None,
        force: bool = False,
        idempotency_key: str | None = None,
    ) -> Tag:
        """Give a commit a name."""
        body = {"name": name, "at": at_text(at), "message": message, "force": force}
        answer = self._transport.request(
            "POST", self._path, body=body, headers=keyed(idempotency_key)
        )
        return read_tag(answer.json())

    def list(self) -> list[Tag]:
        """All tags, sorted by name."""
        return [
            read_tag(item) for item in self._transport.request("GET", self._path).json()["tags"]
        ]

    def get(self, name: str) -> Tag:
        """One tag by its name."""
        path = f"{self._path}/{segment(name)}"
        return read_tag(self._transport.request("GET", path).json())

    def delete(self, name: str, *, idempotency_key: str | None = None) -> Tag:
        """Delete a tag and return what it was. The commit stays."""
        path, headers = f"{self._path}/{segment(name)}", keyed(idempotency_key)
        return read_tag(self._transport.request("DELETE", path, headers=headers).json())


class RemoteCommits:
    """The commits; with the calls of `graph.commits`."""

    def __init__(
        self,
        transport: HttpTransport,
        path: str,
        branch: str,
        diff: Callable[[str, str], RemoteDiff],
    ) -> None:
        """Show them by requests."""
        self._transport = transport
        self._path = f"{path}/commits"
        self._log_path = f"{path}/log"
        self._branch = branch
        self._diff = diff

    def list(
        self, branch: str | None = None, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first."""
        return list(islice(self.walk(branch, actor=actor), limit))

    def walk(self, branch: str | None = None, *, actor: str | None = None) -> Iterator[Commit]:
        """The commits of a branch, newest first, page by page."""
        terms: dict[str, Any] = {
            "branch": branch or self._branch,
            "actor": actor,
            "limit": _PAGE_COMMITS,
            "cursor": None,
        }
        while True:
            page = self._transport.request("GET", self._path, terms=terms).json()
            yield from map(read_commit, page["commits"])
            if "next_cursor" not in page:
                return
            terms["cursor"] = page["next_cursor"]

    def show(self, commit: str) -> Commit:
        """One commit by its id."""
        path = f"{self._path}/{segment(commit)}"
        return read_commit(self._transport.request("GET", path).json())

    def version(self, commit: str) -> int | None:
        """The version of the manifest that a commit made; None if it was not recorded."""
        path = f"{self._path}/{segment(commit)}"
        found = self._transport.request("GET", path).json().get("graph_manifest_version")
        return None if found is None else int(found)

    def log(
        self,
        branch: str | None = None,
        *,
        branches: Sequence[str] | None = None,
        limit: int = 20,
    ) -> str:
        """The newest commits as a graph of lines; see `Commits.log`."""
        terms = {
            "branch": branch or self._branch,
            "branches": branches and [*branches],
            "limit": limit,
        }
        found = self._transport.request("GET", self._log_path, terms=terms).json()
        return str(found["log"])

    def changes(self, commit: str) -> RemoteDiff:
        """The changes that a commit made to the state of its first parent."""
        found = self.show(commit)
        return self._diff(found.parent_id or found.id, found.id)


class RemoteBaseline:
    """The state of a branch at one commit, and the cursor from which its change feed goes on."""

    def __init__(self, changes: list[Change], commit: str, cursor: str) -> None:
        """Hold a baseline that was read."""
        self._changes = changes
        self.commit = commit
        self.cursor = cursor

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)


class RemoteChanges:
    """The change feed; with the calls of `graph.changes`."""

    def __init__(self, transport: HttpTransport, path: str, branch: str) -> None:
        """Read it by requests."""
        self._transport = transport
        self._path = f"{path}/changes"
        self._branch = branch

    def poll(
        self,
        cursor: str | None = None,
        *,
        branch: str | None = None,
        start: Literal["beginning", "now"] = "beginning",
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        limit: int = 1_000,
    ) -> ChangePage:
        """Read the changes that follow a cursor; see `ChangeFeed.poll`."""
        terms: dict[str, Any] = {"limit": limit}
        if cursor is not None:
            terms |= {"branch": branch, "cursor": cursor}
        else:
            terms |= {"branch": branch or self._branch, "start": start}
        terms |= {"type": types and list(types), "op": operations and sorted(operations)}
        found = self._transport.request("GET", self._path, terms=terms).json()
        events = tuple(
            ChangeEvent(commit=_commit_of(block["cause"]), change=read_entity_change(change))
            for block in found["blocks"]
            for change in block["changes"]
        )
        more = "next_page_token" in found
        place = found["next_page_token"] if more else found["cursor"]
        return ChangePage(events=events, cursor=place, more=more)

    def follow(
        self,
        cursor: str | None = None,
        *,
        every: float = 1.0,
        limit: int = 1_000,
        start: Literal["beginning", "now"] = "now",
        **terms: Any,
    ) -> Iterator[ChangePage]:
        """Yield pages with events for ever, and wait while there are none; `ChangeFeed.follow`."""
        page = self.poll(cursor, start=start, limit=limit, **terms)
        while True:
            if page.events:
                yield page
            elif not page.more:
                SystemClock().wait(int(every * 1_000_000))
            page = self.poll(page.cursor, limit=limit)

    def baseline(
        self,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
    ) -> RemoteBaseline:
        """Read the present state, and the cursor from which the feed goes on."""
        body = {
            "branch": branch or self._branch,
            "type": types and list(types),
            "op": operations and sorted(operations),
        }
        changes: list[Change] = []
        last: Mapping[str, Any] = {}
        with self._transport.stream("POST", f"{self._path}/baseline", body=body) as response:
            for line in response:
                found = json.loads(line)
                if "baseline" in found:
                    last = found["baseline"]
                else:
                    changes.append(read_entity_change(found))
        return RemoteBaseline(changes, last["snapshot_commit_id"], last["resume_cursor"])


def _commit_of(cause: Mapping[str, Any]) -> Commit:
    """The commit of a block; its message and its kind stay with the server."""
    return Commit(
        id=cause["graph_commit_id"],
        parent_id=cause.get("parent_commit_id"),
        merged_parent_id=cause.get("merged_parent_commit_id"),
        branch=cause["authored_branch"],
        actor=cause.get("actor_id"),
        created_at=time_of(cause["authored_at"]),
        idempotency_key=None,
        kind=cause.get("kind", ""),
    )
