"""`omnigraph blob get`: the bytes of a large value."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At
from omnigraph.cli.parameters import Argument, Option, UsageError
from omnigraph.cli.targets import Target
from omnigraph.errors import Code, NotFound

_PART_BYTES: Final = 8 << 20

TypeName = Annotated[
    str, Argument(metavar="TYPE", help="The type, perhaps as node:File or edge:Sent.")
]
Id = Annotated[str, Argument(metavar="ID", help="The id of the entity.")]
Property = Annotated[str, Argument(metavar="PROPERTY", help="The property.")]


@command(
    "omnigraph blob get files.omni File a.txt content --out a.txt",
    "omnigraph blob get files.omni File a.txt content --offset 10 --length 5",
    branch=True,
)
def blob_get(
    target: Target,
    type_name: TypeName,
    id: Id,
    property_name: Property,
    at: At = None,
    offset: Annotated[int, Option("--offset", metavar="BYTES", min=0, help="The first byte.")] = 0,
    length: Annotated[
        int | None, Option("--length", metavar="BYTES", min=1, help="How many bytes.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="FILE", help="A file, not the output.")
    ] = None,
) -> Status:
    """Write the bytes of a blob, or of a part of it, to a file or to standard output."""
    if out is None and sys.stdout.isatty():
        raise UsageError("bytes are not for a terminal; name a file with --out")
    with target.open("r") as graph:
        pinned = graph.snapshot(target.on, at=at).commit
        read = partial(graph.read_blob, type_name, id, property_name, branch=target.on, at=pinned)
        # A value that is not there must not leave an empty file.
        if read(offset=0, length=0) is None:
            text = f"{type_name} {id!r} has no value of {property_name}"
            raise NotFound(Code.NOT_FOUND, text, type=type_name, id=id)
        with nullcontext(sys.stdout.buffer) if out is None else out.open("wb") as file:
            for part in _parts(read, offset, length):
                file.write(part)
    return Status.OK


def _parts(read: Callable[..., bytes | None], offset: int, length: int | None) -> Iterator[bytes]:
    """Yield the bytes of a range, part by part; without a length up to the end."""
    end = None if length is None else offset + length
    while end is None or offset < end:
        most = _PART_BYTES if end is None else min(_PART_BYTES, end - offset)
        data = read(offset=offset, length=most) or b""
        yield data
        offset += len(data)
        if len(data) < most:
            return
