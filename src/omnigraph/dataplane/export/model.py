"""The request of an export, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.lang.catalog.model import Catalog

STREAM = "-"  # standard output as a target, and any stream in a result


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """An export as the user words it.

    Attributes:
        snapshot: The state to export.
        catalog: The schema in force there.
        target: A path or URI, `-` for standard output, or a file object that takes bytes. A
            folder, or anything that ends with a slash, takes one or several files per type.
        format: `ndjson`, `arrow` or `parquet`; None for what the suffix of the target says.
        types: Only these types, `Person` or `node:Person`; None for all.
        parts: Take the target for a folder, whatever it looks like.
        compression: `none`, `gzip` or `zstd`; None for what the suffix says, and what suits the
            format.
        overwrite: Replace what is there.
        storage_options: How to reach the target.
    """

    snapshot: GraphVersion
    catalog: Catalog
    target: str | BinaryIO
    format: str | None = None
    types: tuple[str, ...] | None = None
    parts: bool = False
    compression: str | None = None
    overwrite: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export.

    Attributes:
        files: The files of data, in the order of their content; `-` for a stream.
        rows: By table key, how many entities.
        bytes: How many bytes the files have together.
        commit: The commit whose state it is.
        is_parallel: Tasks of the runner wrote it, and not the caller's own process.
    """

    files: tuple[str, ...]
    rows: Mapping[str, int]
    bytes: int
    commit: str
    is_parallel: bool
