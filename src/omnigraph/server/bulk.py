"""Routes for data of any size: loads, exports and blobs."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from typing import Any, Final

import pyarrow as pa

import omnigraph as og
from omnigraph.dataplane.source.formats import MAGIC_BYTES, sniffed
from omnigraph.dataplane.source.model import Compression
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.results.wire import load_json
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.columns import arrow_reader, parquet_reader
from omnigraph.server.failures import HttpFailure
from omnigraph.server.multipart import BodyPart, parts_of
from omnigraph.server.negotiation import preferred
from omnigraph.server.querying import ARROW
from omnigraph.server.references import permitted
from omnigraph.server.streams import BoundedBody, Growth, Holding, Sink

NDJSON: Final = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"
JSON: Final = "application/json"
MULTIPART: Final = "multipart/mixed"
OCTETS: Final = "application/octet-stream"
_FORMATS: Final = {NDJSON: "ndjson", ARROW: "arrow", PARQUET: "parquet"}
_ARROW_MARK_BYTES: Final = 8
_PARQUET_MARK: Final = b"PAR1"
_FOOTER_BYTES_MAX: Final = 8 << 20
_BLOB_CHUNK_BYTES: Final = 4 << 20
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


# -- loads -----------------------------------------------------------------------------------------


def load(call: RouteCall) -> Reply:
    """Load data: raw NDJSON, Arrow, Parquet or several parts, streamed; or a JSON envelope."""
    media = media_type(call)
    if media == JSON:
        return _load_envelope(call)
    return _load_streamed(call, media)


def load_ndjson(call: RouteCall) -> Reply:
    """Load raw NDJSON."""
    if media_type(call) != NDJSON:
        raise HttpFailure(415, f"this route takes {NDJSON}")
    return _load_streamed(call, NDJSON)


def media_type(call: RouteCall) -> str:
    """The media type of the body, without parameters."""
    return call.headers.get("content-type", JSON).partition(";")[0].strip().lower()


def _load_envelope(call: RouteCall) -> Reply:
    asked: requests.LoadInput = call.body
    if (asked.data is None) == (asked.uri is None):
        raise InvalidInput(Code.INPUT_INVALID, "give either `data` or a `uri`")
    source: object
    if asked.uri is not None:
        source = permitted(asked.uri, call.server.config.load_prefixes)
        source = source if asked.type is None else {asked.type: source}
    else:
        source = io.BytesIO((asked.data or "").encode())
    form = asked.format if asked.uri is not None else "ndjson"
    done = _loaded(call, source, asked, form)
    return Reply(body={"uri": call.public_uri, **done})


def _load_streamed(call: RouteCall, media: str) -> Reply:
    asked: requests.LoadTerms = call.terms
    body = _decoded(call)
    try:
        if media == NDJSON:
            size = call.headers.get("content-length", "")
            is_plain = call.headers.get("content-encoding", "identity") == "identity"
            known = int(size) if size.isdigit() and is_plain else None
            return Reply(body=_loaded(call, _Lines(body, known), asked, "ndjson"))
        assert call.upload is not None
        growth = Growth(call.upload, call.server.config.budgets.load_decompressed_bytes)
        if media == ARROW:
            reader = arrow_reader(body, growth)
            return Reply(body=_loaded(call, {_type(asked): reader}, asked, None))
        # The others are read from their end, or in an order of their own: they go to disk first.
        body = _Counted(body, call.spooled)
        if media == PARQUET:
            with tempfile.TemporaryFile(prefix="omnigraph-body-") as file:
                shutil.copyfileobj(body, file, 1 << 20)
                reader = parquet_reader(file, growth)
                return Reply(body=_loaded(call, {_type(asked): reader}, asked, None))
        if media == MULTIPART:
            with parts_of(call.headers["content-type"], body) as parts:
                sources = {part.type: _part_reader(part, growth) for part in parts}
                if len(sources) < len(parts):
                    raise InvalidInput(Code.INPUT_INVALID, "two parts have rows of the same type")
                return Reply(body=_loaded(call, sources, asked, None))
    except (pa.ArrowInvalid, pa.ArrowSerializationError, OSError, EOFError) as error:
        text = f"the body is no {media} that can be read: {error}"
        raise InvalidInput(Code.INPUT_INVALID, text) from error
    raise HttpFailure(415, f"a load takes {', '.join(_FORMATS)}, {MULTIPART} or {JSON}")


def _part_reader(part: BodyPart, growth: Growth) -> pa.RecordBatchReader:
    """The rows of one of several parts."""
    if part.media == ARROW:
        return arrow_reader(part.file, growth)
    is_parquet = part.file.read(len(_PARQUET_MARK)) == _PARQUET_MARK
    part.file.seek(0)
    if is_parquet:
        return parquet_reader(part.file, growth)
    raise HttpFailure(415, f"a part is {ARROW} or {PARQUET}")


class _Lines:
    """A body of NDJSON with a name, for messages, that is not packed any more."""

    def __init__(self, file: Any, size: int | None) -> None:
        self.name = "body"
        self.size = size
        self._file = file
        # What is packed is unpacked where lines are read, but without the bounds of a body.
        self._head: bytes = file.read(MAGIC_BYTES)
        if sniffed(self._head)[1] is not Compression.NONE:
            text = "the lines are compressed: say so once, by the header `Content-Encoding`"
            raise InvalidInput(Code.INPUT_INVALID, text)

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head or bytes(self._file.read(size))


class _Counted:
    """A body that goes to disk, and is counted there."""

    closed = False

    def __init__(self, file: Any, held: Holding) -> None:
        self._file = file
        self._held = held

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._held.take(len(data))
        return data

    def readable(self) -> bool:
        return True


def _decoded(call: RouteCall) -> Any:
    """The body without its compression."""
    assert call.upload is not None
    encoding = call.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return io.BufferedReader(call.upload, 1 << 20)
    if encoding not in ("gzip", "zstd"):
        raise HttpFailure(415, f"a body is compressed by gzip or zstd, not by {encoding[:40]}")
    inner = pa.PythonFile(io.BufferedReader(call.upload, 1 << 20), mode="r")
    stream = pa.CompressedInputStream(inner, encoding)
    most = call.server.config.budgets.load_decompressed_bytes
    return io.BufferedReader(BoundedBody(stream, call.upload, most), 1 << 20)


def _type(asked: requests.LoadTerms) -> str:
    if asked.type is None:
        text = "rows of Arrow and Parquet are of one type: name it by `type` in the query string"
        raise InvalidInput(Code.INPUT_INVALID, text)
    return asked.type


def _loaded(
    call: RouteCall,
    source: object,
    asked: requests.LoadTerms | requests.LoadInput,
    form: str | None,
) -> dict[str, Any]:
    graph = call.graph
    done = graph.load(
        source,
        mode=asked.mode,
        branch=asked.branch,
        create_from=asked.from_,
        replace=asked.replace,
        cascade=asked.cascade,
        format=form,
        idempotency_key=call.idempotency_key,
        message=asked.message,
        violations_max=asked.violations_max,
        cancel=call.cancel,
        engine="inprocess",
        storage_options=call.server.config.storage,
    )
    base = asked.from_ if done.branch_created else None
    return dict(load_json(done, base, graph.commits.version(done.commit.id)))


class ArrowStream:
    """Takes an Arrow file, and hands on the stream that it contains.

    A file is a stream between a mark and a footer. The footer is known by the last bytes, so as
    many of them are held back as a footer may have.
    """

    def __init__(self, sink: Sink) -> None:
        """Hand the stream to this sink."""
        self._sink = sink
        self._skip = _ARROW_MARK_BYTES
        self._tail = bytearray()

    def write(self, data: Any) -> int:
        """Take bytes of the file."""
        piece = bytes(data)
        self._tail += piece[self._skip :]
        self._skip = max(0, self._skip - len(piece))
        if len(self._tail) > 2 * _FOOTER_BYTES_MAX:
            self._sink.write(self._tail[:-_FOOTER_BYTES_MAX])
            del self._tail[:-_FOOTER_BYTES_MAX]
        return len(piece)

    def flush(self) -> None:
        """Do nothing: bytes are handed on when they are known to be no footer."""

    def finish(self) -> None:
        """Hand on what is left, without the footer."""
        length = int.from_bytes(self._tail[-10:-6], "little")
        self._sink.write(self._tail[: -10 - length])


# -- exports ---------------------------------------------------------------------------------------


def export(call: RouteCall) -> Streamed:
    """Stream the entities of one state; `Accept` chooses NDJSON, Arrow or Parquet."""
    asked: requests.ExportTerms = call.terms
    media = preferred(call.headers.get("accept", "*/*"), tuple(_FORMATS))
    if media is None:
        raise HttpFailure(406, f"an export is {', '.join(_FORMATS)}")
    form = _FORMATS[media]
    pinned = call.graph.snapshot(asked.branch, at=asked.at)
    compression: str | None = asked.compression
    if compression is None and form == "ndjson":
        compression = preferred(call.headers.get("accept-encoding", ""), ("zstd", "gzip"))
    return _export(call, pinned, form, asked.types, compression)


def export_posted(call: RouteCall) -> Streamed:
    """Stream the entities of a branch as NDJSON."""
    asked: requests.ExportInput = call.body or requests.ExportInput()
    pinned = call.graph.snapshot(asked.branch, at=asked.snapshot)
    return _export(call, pinned, "ndjson", asked.type_names, None)


def _export(
    call: RouteCall,
    pinned: og.Snapshot,
    form: str,
    types: list[str] | None,
    compression: str | None,
) -> Streamed:
    def write(sink: Sink) -> None:
        target: Any = ArrowStream(sink) if form == "arrow" else sink
        call.graph.export(
            target,
            format=form,
            branch=pinned.branch,
            at=pinned.commit,
            types=types,
            compression=compression or "none",
            engine="inprocess",
            cancel=call.cancel,
        )
        if isinstance(target, ArrowStream):
            target.finish()

    media = next(media for media, name in _FORMATS.items() if name == form)
    headers = {"omnigraph-graph-commit": pinned.commit}
    if compression in ("gzip", "zstd"):
        headers["content-encoding"] = compression
    return Streamed(write=write, media=media, headers=headers)


# -- blobs -----------------------------------------------------------------------------------------


def blob(call: RouteCall) -> Reply | Streamed:
    """Send a blob, or a range of it."""
    asked: requests.BlobTerms = call.terms
    if asked.branch is not None and asked.snapshot is not None:
        raise InvalidInput(Code.INPUT_INVALID, "give either a branch or a snapshot, not both")
    pinned = call.graph.snapshot(asked.branch, at=asked.snapshot)
    other = "edge" if asked.entity == "node" else "node"
    if f"{other}:{asked.type}" in pinned.counts:
        raise InvalidInput(Code.INPUT_INVALID, f"{asked.type!r} is a type of {other}s")
    size = call.graph.blob_size(
        asked.type, asked.id, asked.property, branch=pinned.branch, at=pinned.commit
    )
    if size is None:
        raise NotFound(Code.NOT_FOUND, f"{asked.type} {asked.id!r:.80} has no {asked.property}")
    tag = f'"{pinned.commit}-{size}"'
    headers = {
        "accept-ranges": "bytes",
        "etag": tag,
        "omnigraph-snapshot-id": pinned.commit,
    }
    wanted = call.headers.get("if-match")
    if wanted is not None and wanted.strip() != "*" and tag not in _tags(wanted):
        raise HttpFailure(412, "the blob is another one than `If-Match` names", code="conflict")
    known = call.headers.get("if-none-match")
    if known is not None and (known.strip() == "*" or tag in _tags(known.replace("W/", ""))):
        return Reply(body=b"", status=304, media=OCTETS, headers=headers)
    start, end, status = 0, size, 200
    if call.method != "HEAD":
        chosen = _range(call, size, tag)
        if chosen is not None:
            start, end, status = *chosen, 206
            headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    if call.method == "HEAD":
        return Reply(body=b"", media=OCTETS, headers=headers)

    def piece(place: int) -> bytes:
        found = call.graph.read_blob(
            asked.type,
            asked.id,
            asked.property,
            offset=place,
            length=min(_BLOB_CHUNK_BYTES, end - place),
            branch=pinned.branch,
            at=pinned.commit,
        )
        return found or b""

    if end - start <= _BLOB_CHUNK_BYTES:
        body = piece(start) if start < end else b""
        return Reply(body=body, status=status, media=OCTETS, headers=headers)

    def write(sink: Sink) -> None:
        for place in range(start, end, _BLOB_CHUNK_BYTES):
            sink.write(piece(place))

    return Streamed(write=write, media=OCTETS, headers={**headers, ":status": str(status)})


def _tags(header: str) -> list[str]:
    return [each.strip() for each in header.split(",")]


def _range(call: RouteCall, size: int, tag: str) -> tuple[int, int] | None:
    """The range that is asked for, as first byte and end; None for the whole blob."""
    found = _RANGE.fullmatch(call.headers.get("range", "").replace(" ", ""))
    since = call.headers.get("if-range")
    if found is None or found[0] == "bytes=-" or (since is not None and since.strip() != tag):
        return None
    first, last = found[1], found[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < start:
            return None
    if start >= size:
        asked = {"start": start, "end": end, "length": size}
        headers = {"content-range": f"bytes */{size}"}
        raise HttpFailure(416, "the range lies behind the end", blob_range=asked, headers=headers)
    return start, end
