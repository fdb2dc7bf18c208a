"""Jobs: work that outlives its request, and survives a restart of the server.

A job is a JSON file in the folder of jobs. A server that starts takes jobs up again that were at
work: an export is made anew, and a merge has its id as its idempotency key, so it is done once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import omnigraph as og
from omnigraph.errors import Code, Forbidden, Gone, GraphError, InvalidInput, NotFound
from omnigraph.policy.door import Permission
from omnigraph.results.wire import merge_json
from omnigraph.runtime.cancellation import CancelToken
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.state import Server
from omnigraph.server.streams import Sink

_LIFE_US: Final = 24 * 3600 * 1_000_000
_LINK_US: Final = 3600 * 1_000_000
_PIECE: Final = 1 << 20
_ENDED: Final = frozenset({"done", "failed", "cancelled"})


class PartTerms(requests.Input):
    """The signature of a link to a part."""

    expires: int
    signature: str


class JobOutput(TypedDict):
    """A job."""

    job_id: str
    kind: str
    status: str
    created_at: int
    expires_at: int
    parts: list[dict[str, Any]]
    result: NotRequired[Any]
    error: NotRequired[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJob:
    """Work as it stands in its file."""

    id: str
    graph_id: str
    kind: str
    actor: str
    terms: dict[str, Any]
    created_us: int
    status: str = "queued"
    parts: list[str] = field(default_factory=list)
    result: Any = None
    error: Any = None


class Jobs:
    """The jobs of a server. Thread-safe."""

    def __init__(self, server: Server, folder: Path) -> None:
        """Keep jobs in a folder, and take up those that were at work."""
        self._server = server
        self._folder = folder
        self._lock = threading.Lock()
        self._tokens: dict[str, CancelToken] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._secret = _secret(folder / "secret")

    def resume(self) -> None:
        """Take up the jobs that another server left at work."""
        for path in sorted(self._folder.glob("*.json")):
            job = _read(path)
            if job is not None and job.status not in _ENDED and job.graph_id in self._server.graphs:
                self._submit(job)

    def start(self, graph_id: str, kind: str, actor: str, terms: dict[str, Any]) -> ServerJob:
        """Begin a job."""
        job = ServerJob(
            id=self._server.ids.new(),
            graph_id=graph_id,
            kind=kind,
            actor=actor,
            terms=terms,
            created_us=self._server.clock.now_us(),
        )
        self._write(job)
        self._submit(job)
        return job

    def get(self, graph_id: str, job_id: str) -> ServerJob:
        """One job.

        Raises:
            NotFound: There is none of this id.
            Gone: It has expired.
        """
        path = self._folder / f"{job_id}.json"
        job = _read(path) if job_id.isalnum() else None
        if job is None or job.graph_id != graph_id:
            raise NotFound(Code.NOT_FOUND, f"there is no job {job_id[:40]}")
        if self._server.clock.now_us() > job.created_us + _LIFE_US:
            self._remove_parts(job)
            raise Gone(Code.GONE, f"job {job_id} has expired; start it again", job=job_id)
        return job

    def delete(self, job: ServerJob) -> None:
        """End a job, and remove what it made."""
        token = self._tokens.get(job.id)
        if token is not None:
            token.cancel()
        self._remove_parts(job)
        self._write(replace(job, status="cancelled", parts=[]))

    def link(self, job: ServerJob, part: str) -> dict[str, Any]:
        """A link to a part that needs no token for a while."""
        expires = self._server.clock.now_us() + _LINK_US
        path = f"/graphs/{job.graph_id}/jobs/{job.id}/parts/{part}"
        signature = self._signature(path, expires)
        size = (self._place(job) / part).stat().st_size
        url = f"{path}?expires={expires}&signature={signature}"
        return {"name": part, "bytes": size, "url": url, "expires_at": expires}

    def part(self, path: str, job: ServerJob, part: str, terms: PartTerms) -> Path:
        """The file of a part, if the link to it is one of ours and has not expired.

        Raises:
            Forbidden: It is not.
        """
        wanted = self._signature(path, terms.expires)
        if not hmac.compare_digest(wanted, terms.signature):
            raise Forbidden(Code.FORBIDDEN, "the link is not one of this server")
        if terms.expires < self._server.clock.now_us():
            raise Forbidden(Code.FORBIDDEN, "the link has expired; ask for the job again")
        if part not in job.parts:
            raise NotFound(Code.NOT_FOUND, f"the job has no part {part[:80]!r}")
        return self._place(job) / part

    def _signature(self, path: str, expires: int) -> str:
        text = f"{path}\n{expires}".encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    # -- at work -----------------------------------------------------------------------------------

    def _submit(self, job: ServerJob) -> None:
        token = CancelToken()
        self._tokens[job.id] = token
        self._server.pools["bulk"].submit(self._run, job, token)

    def _run(self, job: ServerJob, token: CancelToken) -> None:
        self._write(replace(job, status="running"))
        try:
            graph = self._server.graph(job.graph_id).acting_as(job.actor)
            ended = self._work(job, graph, token)
        except GraphError as error:
            status = "cancelled" if token.cancelled else "failed"
            if self._server.is_ending:
                status = "queued"
            ended = replace(job, status=status, error=error.to_json())
        if not token.cancelled:
            self._write(ended)
        self._tokens.pop(job.id, None)

    def _work(self, job: ServerJob, graph: og.Graph, token: CancelToken) -> ServerJob:
        terms = job.terms
        if job.kind == "merge":
            done = graph.branches.merge(
                terms["source"], terms["branch"] or "main", message=terms["message"],
                idempotency_key=f"job:{job.id}",
            )  # fmt: skip
            return replace(job, status="done", result=merge_json(done))
        if job.kind == "optimize":
            made = graph.optimize(branch=terms["branch"], cancel=token, engine="inprocess")
            commit = None if made.commit is None else made.commit.id
            return replace(job, status="done", result={"graph_commit_id": commit})
        place = self._place(job)
        shutil.rmtree(place, ignore_errors=True)
        written = graph.export(
            f"{place}/", format=terms["format"], branch=terms["branch"], at=terms["at"],
            types=terms["types"], cancel=token, engine="inprocess",
        )  # fmt: skip
        files = sorted(path.name for path in place.iterdir() if path.is_file())
        result = {"graph_commit_id": written.commit, "rows": dict(written.rows)}
        return replace(job, status="done", parts=files, result=result)

    def _place(self, job: ServerJob) -> Path:
        return self._folder / f"{job.id}.parts"

    def _remove_parts(self, job: ServerJob) -> None:
        shutil.rmtree(self._place(job), ignore_errors=True)

    def _write(self, job: ServerJob) -> None:
        path = self._folder / f"{job.id}.json"
        with self._lock:
            draft = path.with_suffix(".tmp")
            draft.write_text(json.dumps(asdict(job), default=str), encoding="utf-8")
            draft.replace(path)


def _secret(path: Path) -> bytes:
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_bytes(os.urandom(32))
        draft.chmod(0o600)
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_bytes()


def _read(path: Path) -> ServerJob | None:
    try:
        return ServerJob(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


# -- routes ----------------------------------------------------------------------------------------


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
        "expires_at": job.created_us + _LIFE_US,
        "parts": [jobs.link(job, part) for part in job.parts],
    }
    if job.result is not None:
        found["result"] = job.result
    if job.error is not None:
        found["error"] = job.error
    return found


def start(call: RouteCall) -> Reply:
    """Begin an export, a merge or an optimisation that outlives this request."""
    asked: requests.JobInput = call.body
    if asked.kind == "merge" and asked.source is None:
        raise InvalidInput(Code.INPUT_INVALID, "a merge names its `source`")
    permission = {
        "export": Permission.EXPORT,
        "merge": Permission.BRANCH_MERGE,
        "optimize": Permission.MAINTAIN,
    }[asked.kind]
    call.server.authorise(call.actor, permission, branch=asked.branch, source=asked.source)
    jobs = _jobs(call)
    terms: Mapping[str, Any] = {
        name: getattr(asked, name)
        for name in ("branch", "at", "types", "format", "source", "message")
    }
    # The state of an export is the one of now, however often the work is taken up again.
    if asked.kind == "export":
        pinned = call.graph.snapshot(asked.branch, at=asked.at)
        terms = {**terms, "branch": pinned.branch, "at": pinned.commit}
    job = jobs.start(call.served.entry.id, asked.kind, call.actor, dict(terms))
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
    call.server.authorise(call.actor, Permission.EXPORT)
    jobs = _jobs(call)
    job = jobs.get(call.served.entry.id, call.path["job_id"])
    name = call.path["part"]
    path = f"/graphs/{job.graph_id}/jobs/{job.id}/parts/{name}"
    file = jobs.part(path, job, name, call.terms)

    def write(sink: Sink) -> None:
        with file.open("rb") as source:
            while piece := source.read(_PIECE):
                sink.write(piece)

    headers = {"content-length": str(file.stat().st_size)}
    return Streamed(write=write, media="application/octet-stream", headers=headers)
