"""The data of loads and exports through a server: what a caller gave as bytes, and its format."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.results.json_values import json_value

MEDIA_TYPES: Final = {
    "ndjson": "application/x-ndjson",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
_SUFFIXES: Final = {
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".json": "ndjson",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
}


def form_of(path: str) -> tuple[str, str | None]:
    """The format and the compression of a file, by the end of its name."""
    place = Path(path)
    packing = {".gz": "gzip", ".zst": "zstd"}.get(place.suffix)
    plain_name = place.with_suffix("") if packing else place
    return _SUFFIXES.get(plain_name.suffix, "ndjson"), packing


def body_of(source: object, form: str | None) -> tuple[str | None, Any, str, str | None]:
    """The type, the body, the format and the compression of what is loaded."""
    type_name = None
    if isinstance(source, Mapping):
        if len(source) == 1 and not all(isinstance(each, list) for each in source.values()):
            ((type_name, source),) = source.items()
            return (type_name, *body_of(source, form)[1:])
        lines = [
            json.dumps(_envelope(name, json_value(row)))
            for name, rows in source.items()
            for row in rows
        ]
        return None, io.BytesIO("\n".join(lines).encode()), "ndjson", None
    if isinstance(source, list | tuple) and all(isinstance(each, Mapping) for each in source):
        lines = [json.dumps(json_value(row)) for row in source]
        return None, io.BytesIO("\n".join(lines).encode()), "ndjson", None
    if isinstance(source, list | tuple) and len(source) == 1:
        source = source[0]
    if isinstance(source, str | os.PathLike):
        found, packing = form_of(os.fspath(source))
        chosen = form or found
        try:
            return type_name, open(source, "rb"), chosen, packing
        except OSError as error:
            text = f"the file {os.fspath(source)} cannot be read: {error.strerror}"
            raise NotFound(Code.FILE_NOT_FOUND, text, path=os.fspath(source)) from error
    if hasattr(source, "read"):
        return type_name, source, form or "ndjson", None
    text = "through a server, a file, a stream or rows are loaded, not several of them"
    raise InvalidInput(Code.INPUT_INVALID, text)


def _envelope(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    if name.startswith("edge:") or {"from", "to"} <= set(row):
        rest = {key: value for key, value in row.items() if key not in ("from", "to")}
        known = name.removeprefix("edge:")
        return {"edge": known, "from": row["from"], "to": row["to"], "data": rest}
    return {"type": name.removeprefix("node:"), "data": dict(row)}
