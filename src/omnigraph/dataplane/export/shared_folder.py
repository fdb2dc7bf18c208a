"""Checks that the driver and its workers see the same folder, before and after they write.

A folder on the disk of one machine is not the folder of the same name on another. What workers
write there would be lost unnoticed: each of them sees its own file.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane import tuning
from omnigraph.dataplane.export.checksums import BLOCK_BYTES, differing_block
from omnigraph.dataplane.export.parts import Part, PartReceipt
from omnigraph.dataplane.export.target import open_file
from omnigraph.dataplane.run.runner import Runner
from omnigraph.errors import Code, GraphError, InvalidInput, Unavailable
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.streams import delete_stream, open_input, stream_size

# Up to so many bytes of an export are read back as a whole; beyond, the ends of every file are.
READ_BACK_BYTES: Final = 1 << 30
_PROBES_MAX: Final = 64
_MISSING: Final = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderProbe:
    """A file that a worker should find in the folder, and one that it writes there. Picklable.

    Attributes:
        text: What both objects hold.
        found: The object of the driver.
        left: The object of the worker.
        storage_options: How to reach them.
    """

    text: bytes
    found: str
    left: str
    storage_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer of a worker: its host, and if it sees what the driver has written."""

    host: str
    sees: bool


def probe(asked: FolderProbe) -> Probed:
    """Look for the object of the driver; answer it with another one. The task of a check."""
    host = socket.gethostname()
    with storage_errors():
        if _content(asked.found, asked.storage_options) != asked.text:
            return Probed(host, sees=False)
    _write(asked.left, asked.text, asked.storage_options)
    return Probed(host, sees=True)


def require_shared(uri: str, storage_options: Mapping[str, str], runner: Runner, ids: Ids) -> None:
    """Refuse a folder that the workers of a runner do not share with this process.

    Raises:
        InvalidInput: With the code `target_not_shared`.
        GraphError: The folder cannot be written to.
    """
    name = f"{uri}/.og-probe-{ids.new()}"
    text = name.encode()
    probes = [
        FolderProbe(text=text, found=name, left=f"{name}.{number}", storage_options=storage_options)
        for number in range(min(runner.parallelism, _PROBES_MAX))
    ]
    with _removed([name, *(each.left for each in probes)], storage_options):
        _write(name, text, storage_options)
        for number, answer in runner.run("probe", probe, probes):
            if not answer.sees:
                raise _not_shared(uri, f"a worker on {answer.host} does not see what is put there")
            with storage_errors():
                if _content(probes[number].left, storage_options) != text:
                    what = f"what a worker on {answer.host} puts there does not arrive"
                    raise _not_shared(uri, what)


def verify(uri: str, parts: Sequence[Part], receipts: Sequence[PartReceipt]) -> None:
    """Check from this process that every file is there and is what its task wrote.

    Raises:
        InvalidInput: A file is not there: code `target_not_shared`.
        Unavailable: A file is another one.
    """
    is_whole = sum(receipt.bytes for receipt in receipts) <= READ_BACK_BYTES

    def check(part: Part, receipt: PartReceipt) -> None:
        with storage_errors():
            problem = _problem(part, receipt, is_whole=is_whole)
        if problem is None:
            return
        if problem == _MISSING:
            raise _not_shared(uri, f"{part.name} was written by a worker and is not there")
        text = f"{part.uri!r} is not what was written: {problem}. Run the export again"
        raise Unavailable(Code.UNAVAILABLE, text, file=part.uri)

    with ThreadPoolExecutor(tuning.active.staged_requests_max, "omnigraph-verify") as pool:
        # The first problem in the order of the files, whichever was found first.
        for _ in pool.map(check, parts, receipts):
            pass


def blocks_to_read(count: int, *, is_whole: bool) -> list[int]:
    """The blocks of a file that are read back: all of them, or the first and the last."""
    known = list(range(count))
    return known if is_whole else sorted({*known[:1], *known[-1:]})


def _problem(part: Part, receipt: PartReceipt, *, is_whole: bool) -> str | None:
    try:
        size = stream_size(part.uri, part.storage_options)
        if size != receipt.bytes:
            return f"it has {size} bytes instead of {receipt.bytes}"
        blocks = blocks_to_read(len(receipt.checksums), is_whole=is_whole)
        found = differing_block(part.uri, part.storage_options, size, receipt.checksums, blocks)
    except StorageFailure as failure:
        if failure.kind is not FailureKind.NOT_FOUND:
            raise
        return _MISSING
    return None if found is None else f"its bytes from {found * BLOCK_BYTES} on differ"


def _not_shared(uri: str, what: str) -> InvalidInput:
    text = (
        f"the target {uri!r} is not shared between this process and the workers of Spark: {what}. "
        'Choose object storage or a folder that all machines mount, or engine="inprocess"'
    )
    return InvalidInput(Code.TARGET_NOT_SHARED, text, target=uri)


def _content(uri: str, storage_options: Mapping[str, str]) -> bytes | None:
    """The bytes of a small object; None if it is not there."""
    try:
        with open_input(uri, storage_options) as file:
            return bytes(file.read())
    except StorageFailure as failure:
        if failure.kind is FailureKind.NOT_FOUND:
            return None
        raise


def _write(uri: str, text: bytes, storage_options: Mapping[str, str]) -> None:
    with open_file(uri, storage_options) as output:
        output.write(text)


@contextmanager
def _removed(uris: Sequence[str], storage_options: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    finally:
        for uri in uris:
            with suppress(GraphError), storage_errors():
                delete_stream(uri, storage_options)
