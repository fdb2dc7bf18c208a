"""The files of jobs: one per job, and one per server that holds its jobs as long as it lives.

A server holds a lock on its own file. The lock ends with the process, however that ends, so other
servers of the folder know whose jobs are to be taken up again.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

LIFE_US: Final = 24 * 3600 * 1_000_000
_SUFFIX: Final = ".json"
_OWNER_SUFFIX: Final = ".owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJob:
    """Work as it stands in its file.

    Attributes:
        id: Its id.
        graph_id: The graph of the server.
        kind: The kind of work.
        actor: On whose behalf.
        terms: The request.
        created_us: When it was begun.
        owner: The server that has it at work.
        key: The idempotency key that it was begun with.
        status: How far it is: `queued`, `running`, `done`, `failed` or `cancelled`.
        parts: The names of the files that it made, and their sizes.
        result: What came of it.
        error: The error that ended it.
    """

    id: str
    graph_id: str
    kind: str
    actor: str
    terms: dict[str, Any]
    created_us: int
    owner: str = ""
    key: str | None = None
    status: str = "queued"
    parts: dict[str, int] = field(default_factory=dict)
    result: Any = None
    error: Any = None

    @property
    def has_ended(self) -> bool:
        """True if its work has ended."""
        return self.status in ("done", "failed", "cancelled")


class JobRecords:
    """The jobs of a folder. Thread-safe, and safe for several servers of one machine."""

    def __init__(self, folder: Path, owner: str) -> None:
        """Keep jobs in a folder, as the server of this name."""
        self._folder = folder
        self._lock = threading.Lock()
        self.owner = owner
        folder.mkdir(parents=True, exist_ok=True)
        self.secret = _secret(folder / "secret")
        self._held = (folder / f"{owner}{_OWNER_SUFFIX}").open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Give all jobs up."""
        with suppress(OSError):
            os.unlink(self._held.name)
        self._held.close()

    def write(self, job: ServerJob) -> None:
        """Keep the state of a job."""
        path = self._folder / f"{job.id}{_SUFFIX}"
        with self._lock:
            draft = path.with_suffix(f".{self.owner}")
            draft.write_text(json.dumps(asdict(job), default=str), encoding="utf-8")
            draft.replace(path)

    def read(self, job_id: str) -> ServerJob | None:
        """One job; None if there is none of this id."""
        return _read(self._folder / f"{job_id}{_SUFFIX}") if job_id.isalnum() else None

    def all(self) -> list[ServerJob]:
        """Every job, the oldest first."""
        found = map(_read, sorted(self._folder.glob(f"*{_SUFFIX}")))
        return [job for job in found if job is not None]

    def forget(self, job: ServerJob) -> None:
        """Keep a job no longer."""
        (self._folder / f"{job.id}{_SUFFIX}").unlink(missing_ok=True)

    def is_orphaned(self, job: ServerJob) -> bool:
        """True if the server that ran a job is dead."""
        path = self._folder / f"{job.owner}{_OWNER_SUFFIX}"
        try:
            with path.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                return True
        except BlockingIOError:
            return False
        except OSError:
            return True


def _secret(path: Path) -> bytes:
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_bytes(os.urandom(32))
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_bytes()


def _read(path: Path) -> ServerJob | None:
    try:
        return ServerJob(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
