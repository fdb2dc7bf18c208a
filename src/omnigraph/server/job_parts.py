"""The files that export jobs make: below a folder with links of ours, or on S3 with signed ones."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import omnigraph as og
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, Forbidden, NotFound
from omnigraph.runtime.clock import Clock
from omnigraph.server.job_records import ServerJob
from omnigraph.store.io.objects import open_objects, signed_address
from omnigraph.store.root import Root

_LINK_US: Final = 3600 * 1_000_000


class JobParts(Protocol):
    """A place for the parts of jobs."""

    def target(self, job: ServerJob) -> str:
        """The folder that a job exports to, as `Graph.export` takes it."""

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        """The options that reach it; None for the usual ones."""

    def made(self, job: ServerJob, done: og.ExportResult) -> dict[str, int]:
        """The names of the parts of an export, and their sizes."""

    def link(self, job: ServerJob, part: str) -> tuple[str, int]:
        """A link to a part that needs no token, and the moment at which it expires."""

    def file(self, job: ServerJob, part: str, expires: int, signature: str) -> Path:
        """The file of a part, for a link of ours.

        Raises:
            Forbidden: The link is not one of ours, or has expired.
            NotFound: There is no such part.
        """

    def remove(self, job: ServerJob) -> None:
        """Remove the parts of a job."""


class LocalParts:
    """Parts in a folder of this machine; this server sends them, by links that it has signed."""

    storage_options = None

    def __init__(self, folder: Path, secret: bytes, clock: Clock) -> None:
        """Keep parts below a folder."""
        self._folder = folder
        self._secret = secret
        self._clock = clock

    def target(self, job: ServerJob) -> str:
        """The folder of a job."""
        return f"{self._place(job)}/"

    def made(self, job: ServerJob, done: og.ExportResult) -> dict[str, int]:
        """The files of its folder."""
        found = sorted(path for path in self._place(job).iterdir() if path.is_file())
        return {path.name: path.stat().st_size for path in found}

    def link(self, job: ServerJob, part: str) -> tuple[str, int]:
        """A link to this server, signed by it."""
        expires = self._clock.now_us() + _LINK_US
        path = _path(job, part)
        return f"{path}?expires={expires}&signature={self._signature(path, expires)}", expires

    def file(self, job: ServerJob, part: str, expires: int, signature: str) -> Path:
        """The file, if the link is one of ours."""
        wanted = self._signature(_path(job, part), expires)
        if not hmac.compare_digest(wanted.encode(), signature.encode()):
            raise Forbidden(Code.FORBIDDEN, "the link is not one of this server")
        if expires < self._clock.now_us():
            raise Forbidden(Code.FORBIDDEN, "the link has expired; ask for the job again")
        found = self._place(job) / part
        if part not in job.parts or not found.is_file():
            raise NotFound(Code.NOT_FOUND, f"the job has no part {part[:80]!r}")
        return found

    def remove(self, job: ServerJob) -> None:
        """Remove the folder of a job."""
        shutil.rmtree(self._place(job), ignore_errors=True)

    def _place(self, job: ServerJob) -> Path:
        return self._folder / f"{job.id}.parts"

    def _signature(self, path: str, expires: int) -> str:
        # The commit is the one that the job is pinned to, so no link leads to another state.
        text = f"{path}\n{expires}".encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()


class BucketParts:
    """Parts on S3; clients fetch them there, by addresses that are signed for a while."""

    def __init__(self, root: Root, clock: Clock) -> None:
        """Keep parts below a place in a bucket."""
        self._root = root
        self._clock = clock

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        """The options that reach the bucket."""
        return dict(self._root.storage_options) or None

    def target(self, job: ServerJob) -> str:
        """The place of a job."""
        return f"{self._root.join(job.id)}/"

    def made(self, job: ServerJob, done: og.ExportResult) -> dict[str, int]:
        """The objects at its place."""
        with storage_errors():
            found = open_objects(self._root).list(job.id)
        return {each.path.removeprefix(f"{job.id}/"): each.size for each in found}

    def link(self, job: ServerJob, part: str) -> tuple[str, int]:
        """A signed address in the bucket."""
        seconds = _LINK_US // 1_000_000
        with storage_errors():
            address = signed_address(self._root, f"{job.id}/{part}", seconds)
        return address, self._clock.now_us() + _LINK_US

    def file(self, job: ServerJob, part: str, expires: int, signature: str) -> Path:
        """Nothing: the links of this place lead elsewhere."""
        raise NotFound(Code.NOT_FOUND, "the parts of this server are fetched from its bucket")

    def remove(self, job: ServerJob) -> None:
        """Remove the objects at the place of a job."""
        objects = open_objects(self._root)
        with storage_errors():
            for each in objects.list(job.id):
                objects.delete(each.path)


def _path(job: ServerJob, part: str) -> str:
    return f"/graphs/{job.graph_id}/jobs/{job.id}/parts/{part}"


def shown_parts(parts: JobParts, job: ServerJob) -> list[dict[str, Any]]:
    """The parts of a job with their links, as clients see them."""
    found: list[dict[str, Any]] = []
    for name, size in job.parts.items():
        url, expires = parts.link(job, name)
        found.append({"name": name, "bytes": size, "url": url, "expires_at": expires})
    return found
