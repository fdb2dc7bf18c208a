"""File systems for one test: images on loop devices that can be shut down, and small ones to fill.

Shutting a file system down stops every write to its device at once, as a power cut does: what was
synced stays, and whatever else the journal happened to hold. It takes root, a free loop device, and
a kernel with the ioctl; where one of them is missing, ``why_not`` says which.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from threading import Event
from typing import Final

import pytest

# _IOR('X', 125, __u32): EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN.
_SHUTDOWN: Final = 0x8004587D
_OPTIONS: Final = {
    "ext4": ("-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"),
    "xfs": ("-q", "-f"),
}
# The smallest for which there is a log of the usual size, and room for the files of a test.
_BYTES: Final = 400 << 20
# A killed process lets go when its last call to the disk returns, on a busy machine after a while.
_UNMOUNT_TRIES: Final = 3_000


class Cut(IntEnum):
    """What becomes of the journal when the power goes."""

    LOG_FLUSHED = 1  # names of files whose content was never written are there
    LOG_LOST = 2


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted image."""

    image: Path
    folder: Path

    def cut(self, kind: Cut) -> None:
        """Shut the file system down."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", kind))
        finally:
            os.close(descriptor)

    def mount(self) -> None:
        """Mount it; the file system replays its journal."""
        _run("mount", "-o", "loop", str(self.image), str(self.folder))

    def unmount(self) -> None:
        """Take it away, as soon as the processes that were killed have let go."""
        for _ in range(_UNMOUNT_TRIES):
            done = subprocess.run(["umount", str(self.folder)], capture_output=True, check=False)
            if done.returncode == 0:
                return
            Event().wait(0.02)
        raise AssertionError(f"{self.folder} is in use")

    def restart(self) -> None:
        """What happens when the power comes back."""
        self.unmount()
        self.mount()


@contextmanager
def disk(kind: str, folder: Path) -> Iterator[Disk]:
    """An empty file system of a kind, mounted in a new folder."""
    made = Disk(folder / f"{kind}.img", folder / kind)
    made.folder.mkdir()
    with open(made.image, "wb") as file:
        file.truncate(_BYTES)
    try:
        _run(f"mkfs.{kind}", *_OPTIONS[kind], str(made.image))
        made.mount()
        try:
            yield made
        finally:
            made.unmount()
    finally:
        made.image.unlink()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes, in memory. Skips the test where mounting is forbidden."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        _run("umount", "-l", str(folder))


def fill(folder: Path, left: int) -> Path:
    """Use up the space of a disk, but for some bytes; return the file that takes it."""
    stat = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(b"x" * max(0, stat.f_bavail * stat.f_frsize - left))
    return filler


@cache
def why_not(kind: str) -> str | None:
    """Why such a file system cannot be cut here; None if it can."""
    for tool in ("mount", "umount", f"mkfs.{kind}"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if os.geteuid() != 0:
        return "mounting is for root"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with disk(kind, Path(folder)) as made:
                made.cut(Cut.LOG_LOST)
        except (OSError, subprocess.CalledProcessError) as error:
            said = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else ""
            return f"{kind} cannot be mounted and shut down here: {error} {said}".strip()
    return None


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
