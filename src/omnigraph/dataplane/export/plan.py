"""The plan of an export: its types, its format, one file or a folder."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from omnigraph.core.layout import table_key
from omnigraph.core.schema.named_types import chosen_types
from omnigraph.dataplane.export.model import STREAM, ExportRequest
from omnigraph.dataplane.source.model import Compression, Format
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import EntityType
from omnigraph.store.root import Root

Choice = TypeVar("Choice", bound=StrEnum)

FORMATS: Final = (Format.NDJSON, Format.ARROW, Format.PARQUET)
_FORMAT_OF: Final = {
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".json": Format.NDJSON,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
    ".parquet": Format.PARQUET,
}
_COMPRESSION_OF: Final = {".gz": Compression.GZIP, ".zst": Compression.ZSTD}
_SUFFIX_OF: Final = {form: suffix for suffix, form in _COMPRESSION_OF.items()}
_NOT_WRITTEN: Final = frozenset({".csv", ".tsv"})
# The compression of a format by default.
_USUAL: Final = {Format.PARQUET: Compression.ZSTD}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """A checked request, with its target and format resolved.

    Attributes:
        entities: The types, in the order in which they are written.
        format: How rows are spelled.
        compression: How bytes are packed: whole files of NDJSON, otherwise columns within them.
        is_folder: One or several files per type, and not one file or stream of all.
        uri: The absolute address of the file or folder; `-` for a stream.
    """

    entities: tuple[EntityType, ...]
    format: Format
    compression: Compression
    is_folder: bool
    uri: str

    @property
    def suffix(self) -> str:
        """The end of the names of files in the folder."""
        packed = _SUFFIX_OF.get(self.compression, "") if self.format is Format.NDJSON else ""
        return f".{self.format.value}{packed}"


def make_plan(request: ExportRequest, root: Root) -> ExportPlan:
    """The plan of a request.

    Raises:
        InvalidInput: A type, a format or a compression that is not known, or a combination that
            makes no sense.
    """
    entities = chosen_types(request.catalog, request.types)
    uri, is_folder = _place(request, root)
    name = "" if is_folder else uri
    format = _format(request.format, name)
    plan = ExportPlan(
        entities=entities,
        format=format,
        compression=_compression(request.compression, format, name),
        is_folder=is_folder,
        uri=uri,
    )
    if format is not Format.NDJSON and not is_folder and len(entities) != 1:
        text = (
            f"one file of {format.value} holds one type: name it with `types`, "
            "or export to a folder (a target that ends with a slash)"
        )
        names = [table_key(each.kind, each.name) for each in entities]
        raise InvalidInput(Code.INPUT_INVALID, text, types=names)
    return plan


# -- types -----------------------------------------------------------------------------------------


# -- places ----------------------------------------------------------------------------------------


def _place(request: ExportRequest, root: Root) -> tuple[str, bool]:
    """The address of the target, and if it is a folder."""
    target = request.target
    if not isinstance(target, str):
        _check_stream(target)
        target = STREAM
    if target == STREAM:
        if request.parts:
            raise InvalidInput(Code.INPUT_INVALID, "a stream cannot take parts: name a folder")
        return STREAM, False
    place = Root.parse(target)
    # A task may run where relative paths lead elsewhere.
    if place.uri == root.uri or place.uri.startswith(f"{root.uri}/"):
        text = f"{target!r} lies inside of the graph itself"
        raise InvalidInput(Code.INPUT_INVALID, text, target=target)
    is_folder = request.parts or target.endswith("/") or _is_local_folder(place)
    return place.uri, is_folder


def _check_stream(target: object) -> None:
    """Refuse a target that cannot take bytes."""
    if isinstance(target, io.TextIOBase) or not callable(getattr(target, "write", None)):
        text = "a target is a path, a URI, or a file object that takes bytes"
        raise InvalidInput(Code.INPUT_INVALID, text)


def _is_local_folder(place: Root) -> bool:
    return place.is_local and os.path.isdir(place.uri)


# -- formats ---------------------------------------------------------------------------------------


def _format(given: str | None, name: str) -> Format:
    if given is not None:
        return _choice(given, {item.value: item for item in FORMATS}, "format")
    stem, suffix = os.path.splitext(name.lower())
    if suffix in _COMPRESSION_OF:
        suffix = os.path.splitext(stem)[1]
    if suffix in _NOT_WRITTEN:
        text = f"{suffix[1:]} is read but not written; choose ndjson, arrow or parquet"
        raise InvalidInput(Code.INPUT_INVALID, text, target=name)
    return _FORMAT_OF.get(suffix, Format.NDJSON)


def _compression(given: str | None, format: Format, name: str) -> Compression:
    by_name = _COMPRESSION_OF.get(os.path.splitext(name.lower())[1])
    if by_name is not None and format is not Format.NDJSON:
        text = f"{format.value} is compressed within its file: leave {_SUFFIX_OF[by_name]} away"
        raise InvalidInput(Code.INPUT_INVALID, text, target=name)
    if given is None:
        return by_name or _USUAL.get(format, Compression.NONE)
    chosen = _choice(given, {item.value: item for item in Compression}, "compression")
    if by_name not in (None, chosen):
        text = f"the name says {by_name}, the compression is {chosen.value}"
        raise InvalidInput(Code.INPUT_INVALID, text, target=name, compression=chosen.value)
    if format is Format.ARROW and chosen is Compression.GZIP:
        raise InvalidInput(Code.INPUT_INVALID, "arrow is compressed with zstd, not with gzip")
    return chosen


def _choice(text: str, known: Mapping[str, Choice], what: str) -> Choice:
    found = known.get(str(text))
    if found is None:
        names = ", ".join(known)
        message = f"there is no {what} {text!r} for an export; known: {names}"
        raise InvalidInput(Code.INPUT_INVALID, message, **{what: str(text)})
    return found
