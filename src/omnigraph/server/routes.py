"""The table of routes. It serves requests, and it makes the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from omnigraph.results.wire import (
    BranchOutput,
    ChangeOutput,
    CommitOutput,
    LoadOutput,
    MergeOutput,
    TagOutput,
)
from omnigraph.server import (
    about,
    bulk,
    jobs,
    maintenance,
    querying,
    requests,
    transactions,
    versioning,
)
from omnigraph.server.call import Handler, Reply, RouteCall
from omnigraph.server.state import Pool

Body = Literal["json", "optional", "stream", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the server.

    Attributes:
        method: The method of HTTP.
        path: The path, with parameters in braces.
        name: The id of the operation.
        handler: Answers it, on a thread.
        pool: The threads that it runs on.
        tag: The heading that it stands under.
        input: The shape of the body.
        terms: The shape of the query string.
        output: The shape of the answer; None for any object.
        media: The media type of the answer.
        body: How the body comes.
        secured: Needs a token, where there are any.
        at_once: Answers it on the loop, or returns None if that could take long.
        successor: The path of the route that takes its place; then this one is deprecated.
    """

    method: str
    path: str
    name: str
    handler: Handler
    pool: Pool = "read"
    tag: str = "graphs"
    input: type[Any] | None = None
    terms: type[Any] = requests.NothingInput
    output: Any = None
    media: str = "application/json"
    body: Body = "none"
    secured: bool = True
    at_once: Callable[[RouteCall], Reply | None] | None = None
    successor: str | None = None

    @property
    def is_write(self) -> bool:
        """True if it may change a graph."""
        return self.pool != "read" and self.method != "GET"


G: Final = "/graphs/{graph_id}"


def _get(path: str, name: str, handler: Handler, **more: Any) -> Route:
    return Route(method="GET", path=path, name=name, handler=handler, **more)


def _post(path: str, name: str, handler: Handler, **more: Any) -> Route:
    more.setdefault("body", "json" if more.get("input") else "none")
    more.setdefault("pool", "write")
    return Route(method="POST", path=path, name=name, handler=handler, **more)


def _delete(path: str, name: str, handler: Handler, **more: Any) -> Route:
    return Route(method="DELETE", path=path, name=name, handler=handler, pool="write", **more)


_SERVER: Final = (
    _get("/healthz", "health", about.health, tag="server", secured=False,
         output=about.HealthOutput, at_once=about.health),
    _get("/readyz", "ready", about.ready, tag="server", secured=False, output=about.ReadyOutput,
         at_once=about.ready),
    _get("/metrics", "metrics", about.metrics, tag="server", media="text/plain"),
    _get("/graphs", "list_graphs", about.list_graphs, tag="server", output=about.GraphsOutput),
)  # fmt: skip

_QUERIES: Final = (
    _post(f"{G}/query", "cluster_query", querying.query, pool="read", tag="queries",
          input=requests.QueryInput, output=querying.ReadOutput, at_once=querying.query_at_once),
    _post(f"{G}/read", "cluster_read", querying.read, pool="read", tag="queries",
          input=requests.ReadInput, output=querying.OldReadOutput, successor=f"{G}/query"),
    _post(f"{G}/explain", "cluster_explain", querying.explain, pool="read", tag="queries",
          input=requests.QueryInput),
    _post(f"{G}/mutate", "cluster_mutate", querying.mutate, tag="queries",
          input=requests.ChangeInput, output=ChangeOutput),
    _post(f"{G}/change", "cluster_change", querying.mutate, tag="queries",
          input=requests.ChangeInput, output=ChangeOutput, successor=f"{G}/mutate"),
    _post(f"{G}/mutate/if-graph-commit", "cluster_mutate_if", querying.mutate_if, tag="queries",
          input=requests.ChangeInput, output=ChangeOutput),
    _post(f"{G}/profile", "cluster_profile", querying.profile, pool="read", tag="queries",
          input=requests.QueryInput, output=querying.ProfileOutput),
    _post(f"{G}/transaction", "cluster_transaction", transactions.transaction, tag="queries",
          input=requests.TransactionInput, output=transactions.TransactionOutput),
    _get(f"{G}/queries", "cluster_list_queries", querying.list_queries, tag="queries",
         output=querying.QueriesOutput),
    _post(f"{G}/queries/{{name}}", "cluster_invoke", querying.invoke, tag="queries",
          input=requests.InvokeInput, body="optional"),
    _post(f"{G}/queries/{{name}}/if-graph-commit", "cluster_invoke_if", querying.invoke_if,
          tag="queries", input=requests.InvokeInput, body="optional"),
)  # fmt: skip

_BULK: Final = (
    _post(f"{G}/load", "cluster_load", bulk.load, pool="bulk", tag="bulk", body="stream",
          input=requests.LoadInput, terms=requests.LoadTerms, output=LoadOutput),
    _post(f"{G}/ingest", "cluster_ingest", bulk.load, pool="bulk", tag="bulk", body="stream",
          input=requests.LoadInput, terms=requests.LoadTerms, output=LoadOutput,
          successor=f"{G}/load"),
    _post(f"{G}/load/ndjson", "cluster_load_ndjson", bulk.load_ndjson, pool="bulk", tag="bulk",
          body="stream", terms=requests.LoadTerms, output=LoadOutput),
    _get(f"{G}/export", "cluster_export", bulk.export, pool="bulk", tag="bulk",
         terms=requests.ExportTerms, media=bulk.NDJSON),
    _post(f"{G}/export", "cluster_export_posted", bulk.export_posted, pool="bulk", tag="bulk",
          input=requests.ExportInput, body="optional", media=bulk.NDJSON),
    _get(f"{G}/blob", "cluster_blob", bulk.blob, tag="bulk", terms=requests.BlobTerms,
         media=bulk.OCTETS),
    _post(f"{G}/jobs", "cluster_start_job", jobs.start, tag="jobs", input=requests.JobInput,
          output=jobs.JobOutput),
    _get(f"{G}/jobs/{{job_id}}", "cluster_show_job", jobs.show, tag="jobs",
         output=jobs.JobOutput),
    _delete(f"{G}/jobs/{{job_id}}", "cluster_delete_job", jobs.delete, tag="jobs"),
    _get(f"{G}/jobs/{{job_id}}/parts/{{part}}", "cluster_job_part", jobs.part, tag="jobs",
         terms=jobs.PartTerms, media=bulk.OCTETS, secured=False),
)  # fmt: skip

_VERSIONS: Final = (
    _get(f"{G}/branches", "cluster_list_branches", versioning.list_branches, tag="branches",
         output=versioning.BranchesOutput),
    _post(f"{G}/branches", "cluster_create_branch", versioning.create_branch, tag="branches",
          input=requests.NewBranchInput, output=BranchOutput),
    _post(f"{G}/branches/merge", "cluster_merge", versioning.merge, tag="branches",
          input=requests.MergeInput, output=MergeOutput),
    _post(f"{G}/branches/reset", "cluster_reset", versioning.reset, tag="branches",
          input=requests.ResetInput),
    _post(f"{G}/branches/revert", "cluster_revert", versioning.revert, tag="branches",
          input=requests.RevertInput, output=MergeOutput),
    _post(f"{G}/branches/protect", "cluster_protect", versioning.protect, tag="branches",
          input=requests.ProtectInput, output=BranchOutput),
    _post(f"{G}/branches/rename", "cluster_rename_branch", versioning.rename, tag="branches",
          input=requests.RenameInput, output=BranchOutput),
    _get(f"{G}/branches/{{branch:path}}", "cluster_show_branch", versioning.show_branch,
         tag="branches", output=BranchOutput),
    _delete(f"{G}/branches/{{branch:path}}", "cluster_delete_branch", versioning.delete_branch,
            tag="branches", terms=requests.DeleteBranchTerms),
    _get(f"{G}/tags", "cluster_list_tags", versioning.list_tags, tag="tags",
         output=versioning.TagsOutput),
    _post(f"{G}/tags", "cluster_create_tag", versioning.create_tag, tag="tags",
          input=requests.TagInput, output=TagOutput),
    _get(f"{G}/tags/{{tag:path}}", "cluster_show_tag", versioning.show_tag, tag="tags",
         output=TagOutput),
    _delete(f"{G}/tags/{{tag:path}}", "cluster_delete_tag", versioning.delete_tag, tag="tags"),
    _get(f"{G}/snapshot", "cluster_snapshot", about.snapshot, tag="history",
         terms=requests.SnapshotTerms, output=about.SnapshotOutput),
    _get(f"{G}/commits", "cluster_list_commits", versioning.list_commits, tag="history",
         terms=requests.CommitsTerms, output=versioning.CommitsOutput),
    _get(f"{G}/log", "cluster_log", versioning.log, tag="history", terms=requests.LogTerms,
         output=versioning.LogOutput),
    _get(f"{G}/commits/{{commit_id}}", "cluster_show_commit", versioning.show_commit,
         tag="history", output=CommitOutput),
    _get(f"{G}/commits/{{commit_id}}/changes", "cluster_commit_changes",
         versioning.commit_changes, tag="history", terms=requests.ChangesTerms,
         output=versioning.ChangesOutput),
    _get(f"{G}/diff", "cluster_diff", versioning.diff, tag="history", terms=requests.DiffTerms,
         output=versioning.ChangesOutput),
    _get(f"{G}/blame", "cluster_blame", about.blame, tag="history", terms=requests.BlameTerms),
    _get(f"{G}/changes", "cluster_changes", versioning.changes, tag="history",
         terms=requests.FeedTerms, output=versioning.FeedOutput),
    _post(f"{G}/changes/baseline", "cluster_baseline", versioning.baseline, pool="bulk",
          tag="history", input=requests.BaselineInput, body="optional", media=bulk.NDJSON),
    _get(f"{G}/events", "cluster_events", about.events, tag="history", pool="events",
         terms=requests.BranchTerms, media="text/event-stream"),
    _get(f"{G}/schema", "cluster_schema", versioning.show_schema, tag="schema",
         terms=requests.BranchTerms),
    _post(f"{G}/schema/plan", "cluster_plan_schema", versioning.plan_schema, tag="schema",
          input=requests.SchemaInput),
    _post(f"{G}/schema/apply", "cluster_apply_schema", versioning.apply_schema, tag="schema",
          input=requests.SchemaInput),
    _post(f"{G}/optimize", "cluster_optimize", maintenance.optimize, tag="maintenance", pool="bulk",
          input=requests.MaintenanceInput, body="optional"),
    _post(f"{G}/indices", "cluster_indices", maintenance.ensure_indices, tag="maintenance",
          pool="bulk", input=requests.MaintenanceInput, body="optional"),
    _post(f"{G}/recover", "cluster_recover", maintenance.recover, tag="maintenance", pool="bulk"),
    _post(f"{G}/cleanup", "cluster_cleanup", maintenance.cleanup, tag="maintenance", pool="bulk",
          input=requests.CleanupInput, body="optional"),
    _post(f"{G}/verify", "cluster_verify", maintenance.verify, tag="maintenance", pool="bulk",
          input=requests.VerifyInput, body="optional"),
    _post(f"{G}/repair", "cluster_repair", maintenance.repair, tag="maintenance", pool="bulk",
          input=requests.RepairInput, body="optional"),
    _post(f"{G}/embed", "cluster_embed", maintenance.embed, tag="maintenance", pool="bulk",
          input=requests.EmbedInput, body="optional"),
)  # fmt: skip

ROUTES: Final[tuple[Route, ...]] = (*_SERVER, *_QUERIES, *_BULK, *_VERSIONS)
