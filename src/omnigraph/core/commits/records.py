"""The rows of the manifest: five kinds of record in one table, and their form in Arrow.

`object_id` is the key of the compare-and-swap: two writers that put the same one cannot both win.
Everything else about a record is plain data; `metadata` is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeAlias

import pyarrow as pa

from omnigraph.errors import Code, Corrupt, InvalidInput, JsonValue
from omnigraph.types import BranchName, CommitId

FORMAT_VERSION = 6
FORMAT_OLDEST = 4  # its rows of commits, heads and tables do not say which version wrote them
FORMAT_MARKED = 6  # from here on a manifest has a mark that is ours alone
MARK = "omnigraph-python:format"
# The original of OmniGraph, written in Rust, counts its formats under this key. It refuses a number
# that it does not know yet, and takes a manifest without one for the oldest that there is. So ours
# have numbers that it will never come to.
STAMP = "omnigraph:internal_schema_version"
STAMP_OURS = 1_000_000
KEY = "object_id"
COMMIT_KIND = "graph_commit"
VERSION_KIND = "table_version"
COMMIT_PREFIX = "graph_commit:"
REF = "ref"  # the detail of a commit that sets a tag or a setting of a branch, and is on no branch
HEAD_PREFIX = "graph_head:"

ARROW_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string()),
        pa.field("table_version", pa.int64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.int64()),
    ]
)
# What decoding looks at; `base_objects` is for people who read the table.
READ_COLUMNS = tuple(name for name in ARROW_SCHEMA.names if name != "base_objects")
# The published version of a table; in other rows the version of the manifest that wrote them.
VERSION = "table_version"
COMMIT_COLUMNS = ("object_id", "object_type", "metadata", VERSION)
# Narrow, and enough to find the rows that make up the present.
OUTLINE_COLUMNS = ("object_type", "location", "table_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A type has a table at this location."""

    table_key: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """A version of a table is published."""

    table_key: str
    location: str
    version: int
    table_branch: str | None
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneRecord:
    """Every version of a table up to this one is no longer part of the graph."""

    table_key: str
    location: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One atomic change of a branch: who made it, when, by what, and what it follows.

    The same value goes from the writer through its intent into the manifest. Publishing sets
    `parent_id`, the head that it follows; nothing else changes on the way. A field that is added
    here is stored, in intents and in the manifest, under its own name; stored commits that lack it
    have its default.
    """

    id: CommitId
    parent_id: CommitId | None
    merged_parent_id: CommitId | None = None
    branch: BranchName
    actor: str | None
    created_at: int  # microseconds since the epoch
    idempotency_key: str | None = None
    kind: str = "mutation"
    message: str | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRecord:
    """The head of a branch, and the schema in force there."""

    branch: BranchName
    commit: CommitId
    schema_digest: str


Record = TableRecord | VersionRecord | TombstoneRecord | CommitRecord | HeadRecord


def format_metadata(version: int = FORMAT_VERSION) -> dict[str, str]:
    """The marks of a manifest of one of our formats."""
    if version < FORMAT_MARKED:
        return {STAMP: str(version)}
    return {MARK: str(version), STAMP: str(STAMP_OURS + version)}


# -- to Arrow --------------------------------------------------------------------------------------


def encode(records: Iterable[Record], manifest_version: int | None = None) -> pa.Table:
    """Records as rows of the manifest, written at one of its versions."""
    return encode_dated((record, manifest_version) for record in records)


def encode_dated(records: Iterable[tuple[Record, int | None]]) -> pa.Table:
    """Records as rows of the manifest, each with the version of the manifest that wrote it."""
    rows = [{VERSION: version, **_row(record)} for record, version in records]
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def object_id(record: Record) -> str:
    """The key of a record."""
    match record:
        case TableRecord():
            return f"table:{record.location}"
        case VersionRecord():
            return f"version:{record.location}@{record.table_branch or 'main'}@{record.version}"
        case TombstoneRecord():
            return f"tombstone:{record.location}@{record.version}"
        case CommitRecord():
            return f"{COMMIT_PREFIX}{record.id}"
        case HeadRecord():
            return f"{HEAD_PREFIX}{record.branch}"


def ref_of(commit: CommitRecord) -> str | None:
    """The ref that a commit sets; None for a commit of a branch."""
    ref = commit.details.get(REF)
    return ref if isinstance(ref, str) else None


def _row(record: Record) -> dict[str, object]:
    match record:
        case TableRecord(table_key=key, location=location):
            return {
                "object_id": object_id(record),
                "object_type": "table",
                "table_key": key,
                "location": location,
            }
        case VersionRecord():
            return {
                "object_id": object_id(record),
                "object_type": VERSION_KIND,
                "table_key": record.table_key,
                "location": record.location,
                "table_version": record.version,
                "table_branch": record.table_branch,
                "row_count": record.row_count,
            }
        case TombstoneRecord():
            return {
                "object_id": object_id(record),
                "object_type": "table_tombstone",
                "table_key": record.table_key,
                "location": record.location,
                "table_version": record.version,
            }
        case CommitRecord():
            return {
                "object_id": object_id(record),
                "object_type": COMMIT_KIND,
                "location": ref_of(record),
                "metadata": _json(commit_to_json(record, _NAMES_IN_LINEAGE)),
                "base_objects": [
                    f"{COMMIT_PREFIX}{parent}"
                    for parent in (record.parent_id, record.merged_parent_id)
                    if parent is not None
                ],
            }
        case HeadRecord():
            metadata = {"graph_commit_id": record.commit, "schema_digest": record.schema_digest}
            return {
                "object_id": object_id(record),
                "object_type": "graph_head",
                "metadata": _json(metadata),
            }


def _json(value: Mapping[str, JsonValue]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# -- from Arrow ------------------------------------------------------------------------------------


def decode(rows: pa.Table) -> Iterator[Record]:
    """The records of rows that were read from a manifest; unknown kinds are refused."""
    for row in rows.to_pylist():
        try:
            yield _record(row)
        except (KeyError, TypeError, ValueError, InvalidInput) as error:
            place = str(row.get("object_id"))
            text = f"the manifest row {place!r} cannot be read: {error}"
            raise Corrupt(Code.CORRUPT, text, object_id=place) from error


def _record(row: Mapping[str, object]) -> Record:
    kind = row["object_type"]
    match kind:
        case "table":
            return TableRecord(table_key=_text(row, "table_key"), location=_text(row, "location"))
        case "table_version":
            branch = row["table_branch"]
            return VersionRecord(
                table_key=_text(row, "table_key"),
                location=_text(row, "location"),
                version=_number(row, "table_version"),
                table_branch=None if branch is None else str(branch),
                row_count=_number(row, "row_count"),
            )
        case "table_tombstone":
            return TombstoneRecord(
                table_key=_text(row, "table_key"),
                location=_text(row, "location"),
                version=_number(row, "table_version"),
            )
        case "graph_commit":
            return commit_from_json(_metadata(row), _NAMES_IN_LINEAGE)
        case "graph_head":
            metadata = _metadata(row)
            branch_name = _text(row, "object_id").removeprefix(HEAD_PREFIX)
            return HeadRecord(
                branch=BranchName(branch_name),
                commit=CommitId(_text(metadata, "graph_commit_id")),
                schema_digest=_text(metadata, "schema_digest"),
            )
        case _:
            raise ValueError(f"unknown kind {kind!r}")


# The fields of a commit whose names in the manifest differ from their own.
_NAMES_IN_LINEAGE: Final = {
    "id": "graph_commit_id",
    "parent_id": "parent_commit_id",
    "merged_parent_id": "merged_parent_commit_id",
    "branch": "graph_branch",
    "actor": "actor_id",
}


def commit_to_json(commit: CommitRecord, names: Mapping[str, str]) -> dict[str, JsonValue]:
    """The fields of a commit, under their own names or those in `names`."""
    return {names.get(name, name): getattr(commit, name) for name in _COMMIT_FIELDS}


def commit_from_json(plain: Mapping[str, object], names: Mapping[str, str]) -> CommitRecord:
    """Read the fields of a commit back."""
    found: dict[str, Any] = {}
    for name, (read, is_optional) in _COMMIT_FIELDS.items():
        stored = names.get(name, name)
        if stored in plain or not is_optional:
            found[name] = read(plain, stored)
    return CommitRecord(**found)


def _metadata(row: Mapping[str, object]) -> Mapping[str, object]:
    value = json.loads(_text(row, "metadata"))
    if not isinstance(value, dict):
        raise TypeError("metadata is not an object")
    return value


def _text(row: Mapping[str, object], name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def _number(row: Mapping[str, object], name: str) -> int:
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not a number")
    return value


def _text_or_none(row: Mapping[str, object], name: str) -> str | None:
    return None if row[name] is None else _text(row, name)


def _commit_id(row: Mapping[str, object], name: str) -> CommitId:
    return CommitId(_text(row, name))


def _commit_id_or_none(row: Mapping[str, object], name: str) -> CommitId | None:
    return None if row[name] is None else _commit_id(row, name)


def _branch(row: Mapping[str, object], name: str) -> BranchName:
    return BranchName(_text(row, name))


def _object(row: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = row[name] or {}
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object")
    return value


_Reader: TypeAlias = Callable[[Mapping[str, object], str], object]
# By the type of a field, as it is written above.
_READERS: Final[Mapping[str, _Reader]] = {
    "int": _number,
    "str": _text,
    "str | None": _text_or_none,
    "BranchName": _branch,
    "CommitId": _commit_id,
    "CommitId | None": _commit_id_or_none,
    "Mapping[str, JsonValue]": _object,
}
# For each field its reader, and whether stored commits may lack it.
_COMMIT_FIELDS: Final[Mapping[str, tuple[_Reader, bool]]] = {
    item.name: (
        _READERS[str(item.type)],
        item.default is not MISSING or item.default_factory is not MISSING,
    )
    for item in fields(CommitRecord)
}
