"""A folder of files: each written by a task of its own, and a manifest that says which they are.

What a task writes depends on the pinned state alone. When it runs again, or twice at the same
time, it replaces its file by an equal one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane import tuning
from omnigraph.dataplane.export.checksums import Checksummed
from omnigraph.dataplane.export.files import encoder, write_columns
from omnigraph.dataplane.export.plan import ExportPlan
from omnigraph.dataplane.export.rows import read_rows, text_width
from omnigraph.dataplane.export.target import open_file
from omnigraph.dataplane.source.model import Compression, Format
from omnigraph.lang.catalog.model import EntityType
from omnigraph.store.io.streams import list_inputs, open_input
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, open_tables

MANIFEST: Final = "_export.json"
MANIFEST_VERSION: Final = 1
_PART: Final = re.compile(
    r"(?:edge\.)?(?P<type>[A-Za-z_]\w*)-[0-9]{5,}\.(?:ndjson(?:\.gz|\.zst)?|arrow|parquet)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file to write. Picklable: everything that a task needs to know."""

    root: Root
    pin: Pin
    entity: EntityType
    fragments: tuple[int, ...]
    name: str
    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    format: Format
    compression: Compression
    checksums: bool = False


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """The result of a task, with checksums of the blocks of the file if they were asked for."""

    rows: int
    bytes: int
    checksums: tuple[int, ...] = ()


def write_part(part: Part) -> PartReceipt:
    """Write one file. The task of an export."""
    with storage_errors():
        table = open_tables(part.root).open(part.pin)
    batches = read_rows(table, part.entity, part.fragments)
    rows = 0

    def wrote(count: int) -> None:
        nonlocal rows
        rows += count

    with open_file(part.uri, part.storage_options) as file:
        sums = Checksummed(file) if part.checksums else None
        output = sums or file
        if part.format is Format.NDJSON:
            encode = encoder(part.entity, part.compression)
            for batch in batches:
                output.write(encode(batch))
                wrote(batch.num_rows)
        else:
            write_columns(output, batches, part.entity, part.format, part.compression, wrote)
        size = output.tell()
    return PartReceipt(rows, size, () if sums is None else sums.checksums)


# -- planning --------------------------------------------------------------------------------------


def plan_parts(
    repo: Repository,
    snapshot: GraphVersion,
    plan: ExportPlan,
    storage_options: Mapping[str, str],
    *,
    checksums: bool = False,
) -> tuple[Part, ...]:
    """The files that the folder gets. They depend only on the state, not on the engine."""
    parts: list[Part] = []
    for entity, prefix in zip(plan.entities, _prefixes(plan.entities), strict=True):
        pin = snapshot.pin(table_key(entity.kind, entity.name))
        if not pin.row_count:
            continue
        for number, fragments in enumerate(_groups(repo.table(pin).fragment_rows(), entity)):
            name = f"{prefix}{entity.name}-{number:05}{plan.suffix}"
            part = Part(
                root=repo.root,
                pin=pin.store_pin,
                entity=entity,
                fragments=fragments,
                name=name,
                uri=f"{plan.uri}/{name}",
                storage_options=dict(storage_options),
                format=plan.format,
                compression=plan.compression,
                checksums=checksums,
            )
            parts.append(part)
    return tuple(parts)


def _prefixes(entities: Sequence[EntityType]) -> list[str]:
    """The prefix of file names per kind, since an edge type may have the name of a node type."""
    nodes = {item.name for item in entities if item.kind == "node"}
    return ["edge." if item.kind == "edge" and item.name in nodes else "" for item in entities]


def _groups(fragments: Sequence[tuple[int, int]], entity: EntityType) -> Iterator[tuple[int, ...]]:
    """Gather neighbours until they are worth a file."""
    enough = max(1, tuning.active.part_text_bytes // text_width(entity))
    group: list[int] = []
    total = 0
    for fragment, rows in fragments:
        group.append(fragment)
        total += rows
        if total >= enough:
            yield tuple(group)
            group, total = [], 0
    if group:
        yield tuple(group)


# -- the folder ------------------------------------------------------------------------------------


def leftovers(
    plan: ExportPlan, known: Sequence[EntityType], options: Mapping[str, str]
) -> list[str]:
    """The files of an earlier export in the folder, its manifest first; other files are not ours.

    They are what its manifest names, and what is called like a part of a type: an export that was
    killed has no manifest.
    """
    begin = f"{plan.uri}/"
    with storage_errors():
        found = [info.uri for info in list_inputs(plan.uri, options)]
    names = {uri.removeprefix(begin) for uri in found if uri.startswith(begin)}
    types = {item.name for item in known}
    ours = {name for name in names if (part := _PART.fullmatch(name)) and part["type"] in types}
    if MANIFEST in names:
        ours |= names & _listed(begin + MANIFEST, options)
        return [MANIFEST, *sorted(ours)]
    return sorted(ours)


def _listed(uri: str, options: Mapping[str, str]) -> set[str]:
    """The files that a manifest names; none if it cannot be understood."""
    with storage_errors(), open_input(uri, options) as file:
        text = file.read()
    try:
        manifest = json.loads(text)
        return {str(file["name"]) for item in manifest["types"] for file in item["files"]}
    except (ValueError, KeyError, TypeError):
        return set()


def manifest(
    snapshot: GraphVersion, plan: ExportPlan, parts: Sequence[Part], receipts: Sequence[PartReceipt]
) -> bytes:
    """The manifest of a folder: what is in it, and which state that is."""
    by_type: dict[str, list[dict[str, Any]]] = {
        table_key(item.kind, item.name): [] for item in plan.entities
    }
    for part, receipt in zip(parts, receipts, strict=True):
        entry = {"name": part.name, "rows": receipt.rows, "bytes": receipt.bytes}
        by_type[table_key(part.entity.kind, part.entity.name)].append(entry)
    content = {
        "version": MANIFEST_VERSION,
        "format": plan.format.value,
        "compression": plan.compression.value,
        "commit": str(snapshot.head),
        "branch": str(snapshot.branch),
        "schema_digest": snapshot.schema_digest,
        "types": [
            {"type": key, "rows": sum(file["rows"] for file in files), "files": files}
            for key, files in by_type.items()
        ],
    }
    return f"{json.dumps(content, indent=2)}\n".encode()
