"""Routes for branches, tags, commits, diffs, the change feed and the schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.merge.resolution_file import Resolution, ResolutionFile
from omnigraph.results.changes import Change
from omnigraph.results.commits import Commit
from omnigraph.results.wire import (
    BranchOutput,
    CommitOutput,
    EntityChangeOutput,
    TagOutput,
    branch_json,
    commit_json,
    counts_json,
    entity_change_json,
    merge_json,
    tag_json,
    written_commit,
)
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.encoding import encode
from omnigraph.server.failures import HttpFailure
from omnigraph.server.streams import Sink


class BranchesOutput(TypedDict):
    """The branches of a graph."""

    branches: list[str]
    details: list[BranchOutput]


class TagsOutput(TypedDict):
    """The tags of a graph."""

    tags: list[TagOutput]


class CommitsOutput(TypedDict):
    """Commits, the newest first."""

    commits: list[CommitOutput]
    next_cursor: NotRequired[str]


class LogOutput(TypedDict):
    """The newest commits, drawn as a graph of lines."""

    log: str


class Cause(TypedDict):
    """The commit that made some changes."""

    graph_commit_id: str
    authored_branch: str
    authored_at: int
    parent_commit_id: NotRequired[str]
    merged_parent_commit_id: NotRequired[str]
    actor_id: NotRequired[str]


class ChangesOutput(TypedDict):
    """A page of the changes of one commit, or between two states."""

    changes: list[EntityChangeOutput]
    cause: NotRequired[Cause]
    counts: NotRequired[dict[str, Any]]
    older: NotRequired[str]
    newer: NotRequired[str]
    next_page_token: NotRequired[str]


class FeedOutput(TypedDict):
    """A page of the change feed."""

    blocks: list[dict[str, Any]]
    cursor: NotRequired[str]
    caught_up: NotRequired[bool]
    next_page_token: NotRequired[str]


# -- branches --------------------------------------------------------------------------------------


def list_branches(call: RouteCall) -> Reply:
    """List the branches."""
    graph = call.graph
    names = graph.branches.list()
    details = [branch_json(graph.branches.show(name)) for name in names]
    found: BranchesOutput = {"branches": names, "details": details}
    return Reply(body=found)


def create_branch(call: RouteCall) -> Reply:
    """Make a branch."""
    asked: requests.NewBranchInput = call.body
    made = call.graph.branches.create(
        asked.name, asked.from_, at=asked.at, idempotency_key=call.idempotency_key
    )
    return Reply(
        body={
            "uri": call.public_uri,
            "name": made.name,
            "from": asked.from_,
            "actor_id": call.actor,
            **branch_json(made),
        }
    )


def show_branch(call: RouteCall) -> Reply:
    """Show one branch."""
    return Reply(body=branch_json(call.graph.branches.show(call.path["branch"])))


def delete_branch(call: RouteCall) -> Reply:
    """Delete a branch."""
    name = call.path["branch"]
    asked: requests.DeleteBranchTerms = call.terms
    call.graph.branches.delete(name, if_head=asked.if_head, idempotency_key=call.idempotency_key)
    return Reply(body={"uri": call.public_uri, "name": name, "actor_id": call.actor})


def merge(call: RouteCall) -> Reply:
    """Merge a branch into another one, or say what that would do."""
    asked: requests.MergeInput = call.body
    done = call.graph.branches.merge(
        asked.source,
        asked.target,
        resolve=resolution(asked.resolve),
        granularity=asked.granularity,
        dry_run=asked.dry_run,
        delete_branch=asked.delete_branch,
        message=asked.message,
        idempotency_key=call.idempotency_key,
    )
    return Reply(body=merge_json(done))


def resolution(
    given: Literal["ours", "theirs"] | requests.ResolutionsInput | None,
) -> Resolution | None:
    """The resolution of conflicts, as a request says it.

    Raises:
        InvalidInput: A line of the resolutions is wrong.
    """
    if isinstance(given, requests.ResolutionsInput):
        return ResolutionFile.parse(given.name, given.text)
    return given


def reset(call: RouteCall) -> Reply:
    """Give a branch the state of an older commit back."""
    asked: requests.ResetInput = call.body
    done = call.graph.branches.reset(
        asked.branch,
        asked.to,
        if_head=asked.if_head,
        dry_run=asked.dry_run,
        message=asked.message,
        idempotency_key=call.idempotency_key,
    )
    return Reply(
        body={
            "branch": done.branch,
            "to": done.to,
            "former_head": done.former_head,
            **written_commit(done.commit),
            "counts": counts_json(done.counts),
            "replayed": done.replayed,
        }
    )


def revert(call: RouteCall) -> Reply:
    """Take back what a commit changed."""
    asked: requests.RevertInput = call.body
    done = call.graph.branches.revert(
        asked.commit,
        asked.branch,
        resolve=resolution(asked.resolve),
        dry_run=asked.dry_run,
        message=asked.message,
        idempotency_key=call.idempotency_key,
    )
    return Reply(body=merge_json(done))


def protect(call: RouteCall) -> Reply:
    """Protect a branch, or protect it no longer."""
    asked: requests.ProtectInput = call.body
    branches = call.graph.branches
    change = branches.protect if asked.protected else branches.unprotect
    done = change(asked.branch, message=asked.message, idempotency_key=call.idempotency_key)
    return Reply(body=branch_json(done))


def rename(call: RouteCall) -> Reply:
    """Give a branch another name."""
    asked: requests.RenameInput = call.body
    made = call.graph.branches.rename(
        asked.branch, asked.to, message=asked.message, idempotency_key=call.idempotency_key
    )
    return Reply(body=branch_json(made))


# -- tags ------------------------------------------------------------------------------------------


def list_tags(call: RouteCall) -> Reply:
    """List the tags."""
    found: TagsOutput = {"tags": [tag_json(tag) for tag in call.graph.tags.list()]}
    return Reply(body=found)


def create_tag(call: RouteCall) -> Reply:
    """Give a commit a name."""
    asked: requests.TagInput = call.body
    made = call.graph.tags.create(
        asked.name,
        asked.at,
        message=asked.message,
        force=asked.force,
        idempotency_key=call.idempotency_key,
    )
    return Reply(body=tag_json(made))


def show_tag(call: RouteCall) -> Reply:
    """Show one tag."""
    return Reply(body=tag_json(call.graph.tags.get(call.path["tag"])))


def delete_tag(call: RouteCall) -> Reply:
    """Delete a tag; the commit stays."""
    deleted = call.graph.tags.delete(call.path["tag"], idempotency_key=call.idempotency_key)
    return Reply(body=tag_json(deleted))


# -- commits and changes ---------------------------------------------------------------------------


def list_commits(call: RouteCall) -> Reply:
    """List the commits of a branch, the newest first; by pages if a limit is given."""
    asked: requests.CommitsTerms = call.terms
    graph = call.graph
    walk: Iterator[Commit] = graph.commits.walk(asked.branch, actor=asked.actor)
    if asked.cursor is not None:
        for commit in walk:
            if commit.id == asked.cursor:
                break
        else:
            raise InvalidInput(Code.INPUT_INVALID, "the cursor names no commit of this branch")
    if asked.idempotency_key is not None:
        wanted = asked.idempotency_key
        walk = (commit for commit in walk if commit.idempotency_key == wanted)
    most = None if asked.limit is None else asked.limit + 1
    commits = list(islice(walk, most))
    found: CommitsOutput = {"commits": []}
    if asked.limit is not None and len(commits) > asked.limit:
        commits = commits[: asked.limit]
        found["next_cursor"] = commits[-1].id
    found["commits"] = [commit_json(commit, graph.commits.version(commit.id)) for commit in commits]
    return Reply(body=found)


def log(call: RouteCall) -> Reply:
    """Draw the newest commits as a graph of lines."""
    asked: requests.LogTerms = call.terms
    drawn = call.graph.commits.log(asked.branch, branches=asked.branches, limit=asked.limit)
    found: LogOutput = {"log": drawn}
    return Reply(body=found)


def show_commit(call: RouteCall) -> Reply:
    """Show one commit."""
    found = _commit(call)
    return Reply(body=commit_json(found, call.graph.commits.version(found.id)))


def _commit(call: RouteCall) -> Commit:
    """The commit of the address. What is no id of a commit is not found either."""
    try:
        return call.graph.commits.show(call.path["commit_id"])
    except InvalidInput as error:
        raise HttpFailure(404, str(error), graph_error=dict(error.to_json())) from error


def commit_changes(call: RouteCall) -> Reply:
    """List what a commit changed, by pages."""
    asked, commit = call.terms, _commit(call)
    if commit.parent_id is None:
        refusal = {"reason": "parentless_commit", "graph_commit_id": commit.id}
        text = "the first commit has no parent to be compared with"
        raise HttpFailure(409, text, change_diff_refusal=refusal)
    found = _page(call, commit.parent_id, commit.id, asked)
    return Reply(body={"cause": _cause(commit), **found})


def diff(call: RouteCall) -> Reply:
    """Compare two states of the graph, by pages."""
    asked: requests.DiffTerms = call.terms
    graph = call.graph
    compared = graph.diff(
        asked.from_, asked.to, types=asked.type, operations=asked.op, kind=_kind(asked.kind)
    )
    place = None
    if asked.after_type is not None and asked.after_id is not None:
        place = (asked.after_type, asked.after_id)
    found = _page(call, compared.older, compared.newer, asked, place)
    sides = {"older": compared.older, "newer": compared.newer}
    return Reply(body={**sides, "counts": counts_json(compared.counts), **found})


def _kind(kinds: list[Literal["node", "edge"]] | None) -> Literal["node", "edge"] | None:
    """The only kind that is asked for; None for both."""
    return kinds[0] if kinds is not None and len(set(kinds)) == 1 else None


def _page(
    call: RouteCall,
    older: str,
    newer: str,
    asked: requests.ChangesTerms,
    after: tuple[str, str] | None = None,
) -> ChangesOutput:
    compared = call.graph.diff(
        older, newer, types=asked.type, operations=asked.op, kind=_kind(asked.kind)
    )
    scope = [older, newer, asked.kind, asked.type, asked.op]
    if asked.page_token is not None:
        after = _position(asked.page_token, scope)
    changes = list(islice(compared.after(after), asked.limit + 1))
    found: ChangesOutput = {"changes": list(map(entity_change_json, changes[: asked.limit]))}
    if len(changes) > asked.limit:
        found["next_page_token"] = _token(changes[asked.limit - 1], scope)
    return found


def _token(last: Change, scope: list[Any]) -> str:
    text = json.dumps([f"{last.kind}:{last.type}", last.id, scope])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _position(token: str, scope: list[Any]) -> tuple[str, str]:
    try:
        key, entity_id, made_for = json.loads(base64.urlsafe_b64decode(token.encode()))
    except ValueError:
        raise InvalidInput(Code.INPUT_INVALID, "the page token is not one of this server") from None
    if made_for != scope or not isinstance(key, str) or not isinstance(entity_id, str):
        text = "the page token belongs to other commits or filters"
        raise InvalidInput(Code.INPUT_INVALID, text)
    return key, entity_id


def _cause(commit: Commit) -> Cause:
    shown = commit_json(commit)
    found: Cause = {
        "graph_commit_id": commit.id,
        "authored_branch": commit.branch,
        "authored_at": shown["created_at"],
    }
    for name in ("parent_commit_id", "merged_parent_commit_id", "actor_id"):
        if name in shown:
            found[name] = shown[name]
    return found


def changes(call: RouteCall) -> Reply:
    """Read the change feed of a branch."""
    asked: requests.FeedTerms = call.terms
    given = [asked.cursor, asked.start, asked.page_token]
    if sum(each is not None for each in given) > 1:
        text = "give one of `start`, `cursor` and `page_token`"
        raise InvalidInput(Code.INPUT_INVALID, text)
    graph = call.graph
    place = asked.cursor or asked.page_token
    start = asked.start or "now"
    if place is None and start.startswith("after:"):
        text = "start at the `beginning` or `now`, or go on from a cursor"
        raise InvalidInput(Code.INPUT_INVALID, text)
    types = None if asked.type is None and asked.kind is None else _types(call, asked)
    page = graph.changes.poll(
        place,
        branch=asked.branch,
        start=start,  # type: ignore[arg-type]  # it is checked there
        types=types,
        operations=asked.op,
        limit=asked.limit,
    )
    blocks: list[dict[str, Any]] = []
    for event in page.events:
        if not blocks or blocks[-1]["cause"]["graph_commit_id"] != event.commit.id:
            blocks.append({"cause": _cause(event.commit), "changes": []})
        blocks[-1]["changes"].append(entity_change_json(event.change))
    found: FeedOutput = {"blocks": blocks}
    if page.more:
        found["next_page_token"] = page.cursor
    else:
        found["cursor"], found["caught_up"] = page.cursor, True
    return Reply(body=found)


def _types(call: RouteCall, asked: requests.FeedTerms | requests.BaselineInput) -> list[str] | None:
    if asked.kind is None:
        return asked.type
    known = call.graph.snapshot(asked.branch).counts
    wanted = [key for key in known if key.partition(":")[0] in asked.kind]
    if asked.type is not None:
        wanted = [key for key in wanted if key in asked.type or key[5:] in asked.type]
    return wanted


def baseline(call: RouteCall) -> Streamed:
    """Stream the present state, and the cursor from which the feed goes on."""
    asked: requests.BaselineInput = call.body or requests.BaselineInput()
    state = call.graph.changes.baseline(
        branch=asked.branch, types=_types(call, asked), operations=asked.op
    )

    def write(sink: Sink) -> None:
        lines: list[bytes] = []
        for change in state:
            lines.append(encode(dict(entity_change_json(change))) + b"\n")
            if len(lines) == 500:
                sink.write(b"".join(lines))
                lines.clear()
        last = {"snapshot_commit_id": state.commit, "resume_cursor": state.cursor}
        lines.append(encode({"baseline": last}) + b"\n")
        sink.write(b"".join(lines))

    return Streamed(write=write)


# -- the schema ------------------------------------------------------------------------------------


def show_schema(call: RouteCall) -> Reply:
    """Show the schema in force."""
    asked: requests.BranchTerms = call.terms
    return Reply(body={"schema_source": call.graph.schema.show(asked.branch, at=asked.at)})


def plan_schema(call: RouteCall) -> Reply:
    """Say what a change of the schema would do."""
    asked: requests.SchemaInput = call.body
    planned = call.graph.schema.plan(
        asked.schema_source, branch=asked.branch, allow_data_loss=asked.allow_data_loss
    )
    return Reply(body=_change_json(planned))


def apply_schema(call: RouteCall) -> Reply:
    """Change the schema of a branch."""
    asked: requests.SchemaInput = call.body
    done = call.graph.schema.apply(
        asked.schema_source,
        branch=asked.branch,
        allow_data_loss=asked.allow_data_loss,
        message=asked.message,
        idempotency_key=call.idempotency_key,
        if_commit=call.headers.get("omnigraph-if-graph-commit"),
    )
    return Reply(body={"uri": call.public_uri, **_change_json(done)})


def _change_json(change: Any) -> dict[str, Any]:
    return {
        "supported": change.supported,
        "applied": change.commit is not None,
        "step_count": len(change.steps),
        "steps": [dict(step) for step in change.steps],
        "notes": list(change.notes),
        "rows": dict(change.rows),
        "violations": [dict(item) for item in change.violations],
        "violation_count": change.violation_count,
        **written_commit(change.commit),
        "replayed": change.replayed,
    }
