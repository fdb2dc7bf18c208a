"""The process that owns an intent or a claim, and the lease under which it acts.

A process on this machine is asked for directly: it runs, or it does not. About a process on
another machine nothing can be known but when it last wrote its intent, so an owner has a lease: it
renews the intent before the lease is over and moves nothing afterwards. Each side measures by a
clock of its own: the owner by its monotonic counter, others by the store's time (`liveness`).
A writer that gives up without settling releases the lease, so that others need not wait.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from omnigraph.core import tuning
from omnigraph.errors import JsonValue

_RELEASED = 0
_ANYWHERE = "anywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process; its start time distinguishes it from others with the same number."""

    machine: str
    process: int
    started: str
    lease_until: int  # microseconds since the epoch, for people; 0 when the lease was released
    lease_us: int = tuning.active.writer_lease_us

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values."""
        return {
            "machine": self.machine,
            "process": self.process,
            "started": self.started,
            "lease_until": self.lease_until,
            "lease_us": self.lease_us,
        }

    @staticmethod
    def from_json(plain: Mapping[str, object]) -> Owner:
        """Read plain values back."""
        return Owner(
            machine=str(plain["machine"]),
            process=int(str(plain["process"])),
            started=str(plain["started"]),
            lease_until=int(str(plain["lease_until"])),
            lease_us=int(str(plain.get("lease_us", tuning.active.writer_lease_us))),
        )

    @property
    def is_released(self) -> bool:
        """True if the owner has given up."""
        return self.lease_until == _RELEASED

    @property
    def is_here(self) -> bool:
        """True for a process of this machine, whose state can be looked up."""
        return self.machine == _machine()

    def runs(self) -> bool:
        """True if the process runs. Only for owners on this machine."""
        return _started(self.process) == self.started

    def renewed(self, now_us: int) -> Owner:
        """The owner with a fresh lease."""
        return replace(self, lease_until=now_us + self.lease_us)

    def released(self) -> Owner:
        """The owner after it has given up."""
        return replace(self, lease_until=_RELEASED)

    def anywhere(self) -> Owner:
        """An owner that is no process of its own: only its lease shows whether it is at work."""
        return replace(self, machine=_ANYWHERE)

    def is_us(self) -> bool:
        """True for this process."""
        return (self.machine, self.process) == (_machine(), os.getpid())


def this_process(now_us: int, lease_us: int | None = None) -> Owner:
    """This process, with a fresh lease: that of a writer, unless another length is given."""
    process = os.getpid()
    lease_us = tuning.active.writer_lease_us if lease_us is None else lease_us
    return Owner(
        machine=_machine(),
        process=process,
        started=_started(process) or "",
        lease_until=now_us + lease_us,
        lease_us=lease_us,
    )


@cache
def _machine() -> str:
    """This machine since it was booted, or this container; process numbers mean nothing beyond."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        numbering = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = numbering = ""
    return f"{socket.gethostname()}/{boot}/{numbering}"


def _started(process: int) -> str | None:
    """The start of a process, in the kernel's own count; None when it does not run."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?" if _runs(process) and not Path("/proc/self/stat").exists() else None
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in ("Z", "X") else started


def _runs(process: int) -> bool:
    """True if a process runs, on systems without /proc."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
