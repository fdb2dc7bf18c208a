"""Jobs: work that outlives its request, and survives a restart of the server.

A server takes jobs up again whose server has died: an export is made anew, and a merge has its id
as its idempotency key, so it is done once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import msgspec

import omnigraph as og
from omnigraph.errors import Code, Conflict, Gone, GraphError, Internal, InvalidInput, NotFound
from omnigraph.graph.opening import graph_root
from omnigraph.policy.authorization import Permission
from omnigraph.results.maintenance_wire import (
    cleanup_json,
    embed_json,
    indices_json,
    optimize_json,
    verify_json,
)
from omnigraph.results.wire import merge_json
from omnigraph.runtime.cancellation import CancelToken
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.job_parts import BucketParts, JobParts, LocalParts, shown_parts
from omnigraph.server.job_records import LIFE_US, JobRecords, ServerJob
from omnigraph.server.state import Server
from omnigraph.server.streams import Sink
from omnigraph.server.versioning import resolution

logger = logging.getLogger("omnigraph.server")

_PIECE_BYTES: Final = 1 << 20
_TERMS: Final = (
    "branch", "at", "types", "format", "source", "message", "depth", "keep", "older_than",
    "granularity", "delete_branch",
)  # fmt: skip


class PartTerms(requests.Input):
    """The signature of a link to a part."""

    expires: int
    signature: str


class PartOutput(TypedDict):
    """A file that a job made."""

    name: str
    bytes: int
    url: str
    expires_at: int


class JobOutput(TypedDict):
    """A job."""

    job_id: str
    kind: str
    status: str
    created_at: int
    expires_at: int
    parts: list[PartOutput]
    result: NotRequired[Any]
    error: NotRequired[dict[str, Any]]


class Jobs:
    """The jobs of a server. Thread-safe."""

    def __init__(self, server: Server, folder: Path) -> None:
        """Keep jobs in a folder."""
        self._server = server
        self._records = JobRecords(folder, server.ids.new())
        self._tokens: dict[str, CancelToken] = {}
        self._starting = threading.Lock()
        place = server.config.exports
        self.parts: JobParts = (
            LocalParts(folder, self._records.secret, server.clock)
            if place is None
            else BucketParts(graph_root(place, server.storage_options(place)), server.clock)
        )

    def resume(self) -> None:
        """Take up the jobs that a server left at work, and forget those that have expired."""
        for job in self._records.all():
            if job.graph_id not in self._server.graphs:
                continue
            if self._is_expired(job):
                self._remove_parts(job)
                # Requests for it in the next days are answered that it has expired.
                if self._server.clock.now_us() > job.created_us + 7 * LIFE_US:
                    self._records.forget(job)
            elif not job.has_ended and self._records.is_orphaned(job):
                self._submit(replace(job, owner=self._records.owner))

    def stop(self) -> None:
        """Interrupt what can be interrupted; the next server resumes it."""
        for token in list(self._tokens.values()):
            token.cancel()

    def close(self) -> None:
        """Give the jobs up; to be called when the threads have ended."""
        self._records.close()

    def start(
        self, graph_id: str, kind: str, actor: str, terms: dict[str, Any], key: str | None
    ) -> ServerJob:
        """Begin a job; the one that the key has begun already, if there is one.

        Raises:
            Conflict: The key has begun another job.
        """
        with self._starting:
            known = None if key is None else self._keyed(graph_id, actor, key)
            if known is not None:
                if known.kind != kind or _asked(terms) != _asked(known.terms):
                    text = f"the idempotency key names another operation already, job {known.id}"
                    raise Conflict(Code.IDEMPOTENCY_KEY_REUSED, text, job=known.id)
                return known
            job = ServerJob(
                id=self._server.ids.new(),
                graph_id=graph_id,
                kind=kind,
                actor=actor,
                terms=terms,
                created_us=self._server.clock.now_us(),
                owner=self._records.owner,
                key=key,
            )
            self._submit(job)
        return job

    def _keyed(self, graph_id: str, actor: str, key: str) -> ServerJob | None:
        wanted = (graph_id, actor, key)
        return next(
            (job for job in self._records.all() if (job.graph_id, job.actor, job.key) == wanted),
            None,
        )

    def get(self, graph_id: str, job_id: str) -> ServerJob:
        """One job.

        Raises:
            NotFound: There is none of this id.
            Gone: It has expired.
        """
        job = self.known(graph_id, job_id)
        if job is None:
            raise NotFound(Code.NOT_FOUND, f"there is no job {job_id[:40]}")
        if self._is_expired(job):
            self._remove_parts(job)
            raise Gone(Code.GONE, f"job {job_id} has expired; start it again", job=job_id)
        return job

    def known(self, graph_id: str, job_id: str) -> ServerJob | None:
        """One job, also if it has expired; None if there is none of this id."""
        job = self._records.read(job_id)
        return None if job is None or job.graph_id != graph_id else job

    def delete(self, job: ServerJob) -> None:
        """End a job, and remove what it made. The server that runs it is notified."""
        self._records.write(replace(job, status="cancelled", parts={}))
        token = self._tokens.get(job.id)
        if token is not None:
            token.cancel()
        self._remove_parts(job)

    def _is_expired(self, job: ServerJob) -> bool:
        return self._server.clock.now_us() > job.created_us + LIFE_US

    def _remove_parts(self, job: ServerJob) -> None:
        try:
            self.parts.remove(job)
        except GraphError:
            logger.exception("the parts of job %s could not be removed", job.id)

    # -- at work -----------------------------------------------------------------------------------

    def _submit(self, job: ServerJob) -> None:
        self._records.write(job)
        token = CancelToken()
        self._tokens[job.id] = token
        self._server.pools["bulk"].submit(self._run, job, token)

    def _run(self, job: ServerJob, token: CancelToken) -> None:
        try:
            self._carry_out(job, token)
        except Exception:
            # Such as a full disk: the job stays at work, and the next server takes it up.
            logger.exception("job %s could not be kept", job.id)
        finally:
            self._tokens.pop(job.id, None)

    def _carry_out(self, job: ServerJob, token: CancelToken) -> None:
        if self._was_deleted(job):
            return
        self._records.write(replace(job, status="running"))
        try:
            graph = self._server.graph(job.graph_id).acting_as(job.actor)
            ended = self._work(job, graph, token)
        except GraphError as error:
            is_interrupted = token.cancelled and self._server.is_ending
            status = "queued" if is_interrupted else "failed"
            ended = replace(job, status=status, error=None if is_interrupted else error.to_json())
        except Exception as error:
            logger.exception("job %s failed", job.id)
            hidden = Internal(Code.INTERNAL, type(error).__name__).to_json()
            ended = replace(job, status="failed", error=hidden)
        if self._was_deleted(job):
            self._remove_parts(job)
        else:
            self._records.write(ended)

    def _was_deleted(self, job: ServerJob) -> bool:
        """True if a client has deleted it meanwhile, perhaps by another process."""
        now = self._records.read(job.id)
        return now is not None and now.status == "cancelled"

    def _work(self, job: ServerJob, graph: og.Graph, token: CancelToken) -> ServerJob:
        terms = job.terms
        if job.kind == "merge":
            done = graph.branches.merge(
                terms["source"], terms["branch"] or "main", message=terms["message"],
                resolve=resolution(_resolutions(terms.get("resolve"))),
                granularity=terms.get("granularity", "property"),
                delete_branch=terms.get("delete_branch", False),
                idempotency_key=f"job:{job.id}",
            )  # fmt: skip
            return replace(job, status="done", result=merge_json(done))
        if job.kind != "export":
            return replace(job, status="done", result=_maintained(job.kind, terms, graph, token))
        self.parts.remove(job)
        written = graph.export(
            self.parts.target(job), format=terms["format"], branch=terms["branch"],
            at=terms["at"], types=terms["types"], cancel=token, engine="inprocess",
            storage_options=self.parts.storage_options,
        )  # fmt: skip
        result = {"graph_commit_id": written.commit, "rows": dict(written.rows)}
        return replace(job, status="done", parts=self.parts.made(job, written), result=result)


def _resolutions(kept: Any) -> Any:
    """The resolutions of a merge, as the file of its job keeps them."""
    return requests.ResolutionsInput(**kept) if isinstance(kept, dict) else kept


def _maintained(
    kind: str, terms: Mapping[str, Any], graph: og.Graph, token: CancelToken
) -> dict[str, Any]:
    """Do a job of maintenance, and answer its report as its route does."""
    branch, message = terms["branch"], terms["message"]
    if kind == "indices":
        built = graph.ensure_indices(branch=branch, message=message, cancel=token)
        return indices_json(built)
    if kind == "cleanup":
        cleaned = graph.cleanup(keep=terms["keep"], older_than=terms["older_than"], cancel=token)
        return cleanup_json(cleaned)
    if kind == "verify":
        return verify_json(graph.verify(terms["depth"], engine="inprocess", cancel=token))
    if kind == "embed":
        types = terms["types"]
        return embed_json(
            graph.embed(
                types=types, branch=branch, message=message, engine="inprocess", cancel=token
            )
        )
    done = graph.optimize(branch=branch, message=message, engine="inprocess", cancel=token)
    return optimize_json(done)


def _asked(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of a job; an export is pinned when it begins."""
    return {name: value for name, value in terms.items() if name not in ("branch", "at")}


# -- routes ----------------------------------------------------------------------------------------


def _asked_branch(job: ServerJob) -> str | None:
    branch: str | None = job.terms.get("asked_branch")
    return branch


def _jobs(call: RouteCall) -> Jobs:
    found = call.server.jobs
    if not isinstance(found, Jobs):
        raise InvalidInput(Code.INPUT_INVALID, "this server has no folder for jobs: --jobs FOLDER")
    return found


def _shown(jobs: Jobs, job: ServerJob) -> JobOutput:
    found: JobOutput = {
        "job_id": job.id,
        "kind": job.kind,
        "status": job.status,
        "created_at": job.created_us,
        "expires_at": job.created_us + LIFE_US,
        "parts": [],
    }
    found["parts"] += shown_parts(jobs.parts, job)  # type: ignore[arg-type]
    if job.result is not None:
        found["result"] = job.result
    if job.error is not None:
        found["error"] = job.error
    return found


def start(call: RouteCall) -> Reply:
    """Begin an export, a merge or work of maintenance that outlives this request."""
    asked: requests.JobInput = call.body
    if asked.kind == "merge" and asked.source is None:
        raise InvalidInput(Code.INPUT_INVALID, "a merge names its `source`")
    known = {
        "embed": Permission.CHANGE,
        "export": Permission.EXPORT,
        "merge": Permission.BRANCH_MERGE,
    }
    permission = known.get(asked.kind, Permission.MAINTAIN)
    call.server.authorise(call.actor, permission, branch=asked.branch, source=asked.source)
    resolution(asked.resolve)
    jobs = _jobs(call)
    terms: dict[str, Any] = {name: getattr(asked, name) for name in _TERMS}
    terms = {**terms, "asked_branch": asked.branch, "asked_at": asked.at}
    terms["resolve"] = msgspec.to_builtins(asked.resolve)
    # The state of an export is the one of now, however often the work is taken up again.
    if asked.kind == "export":
        pinned = call.graph.snapshot(asked.branch, at=asked.at)
        terms = {**terms, "branch": pinned.branch, "at": pinned.commit}
    job = jobs.start(call.served.entry.id, asked.kind, call.actor, terms, call.idempotency_key)
    headers = {"location": f"{call.public_uri}/jobs/{job.id}"}
    return Reply(body=_shown(jobs, job), status=202, headers=headers)


def _own(call: RouteCall) -> tuple[Jobs, ServerJob]:
    jobs = _jobs(call)
    call.server.authorise(call.actor, Permission.READ)
    job = jobs.get(call.served.entry.id, call.path["job_id"])
    if job.actor != call.actor:
        raise NotFound(Code.NOT_FOUND, f"there is no job {job.id}")
    return jobs, job


def show(call: RouteCall) -> Reply:
    """Show how far a job is, with links to its parts."""
    jobs, job = _own(call)
    return Reply(body=_shown(jobs, job))


def delete(call: RouteCall) -> Reply:
    """End a job, and remove what it made."""
    jobs, job = _own(call)
    jobs.delete(job)
    return Reply(body={"job_id": job.id, "status": "cancelled"})


def part(call: RouteCall) -> Streamed:
    """Send a part of an export, by its signed link."""
    jobs = _jobs(call)
    place = call.served.entry.id, call.path["job_id"]
    known = jobs.known(*place)
    # The link stands for the actor of the job, who may have lost the permission since.
    actor, branch = (call.actor, None) if known is None else (known.actor, _asked_branch(known))
    call.server.authorise(actor, Permission.EXPORT, branch=branch)
    job = jobs.get(*place)
    name = call.path["part"]
    terms: PartTerms = call.terms
    file = jobs.parts.file(job, name, terms.expires, terms.signature)

    def write(sink: Sink) -> None:
        with file.open("rb") as source:
            while piece := source.read(_PIECE_BYTES):
                sink.write(piece)

    headers = {"content-length": str(file.stat().st_size)}
    return Streamed(write=write, media="application/octet-stream", headers=headers)
