"""Bodies of several parts, one per type, streamed into temporary files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser

from omnigraph.errors import Code, InvalidInput

_BOUNDARY: Final = re.compile(r'boundary="?([^";]{1,70})"?', re.IGNORECASE)
_NAME: Final = re.compile(r'name="?([^";]+)"?', re.IGNORECASE)
_PARTS_MAX: Final = 1024
_HEADER_BYTES_MAX: Final = 8192
_PIECE_BYTES: Final = 1 << 20


@dataclass(slots=True)
class BodyPart:
    """One part of a body: the rows of one type."""

    file: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The type whose rows it has."""
        found = _NAME.search(self.headers.get("content-disposition", ""))
        name = self.headers.get("omnigraph-type") or (found[1] if found else "")
        if not name:
            text = 'a part names its type: `Content-Disposition: attachment; name="Person"`'
            raise InvalidInput(Code.INPUT_INVALID, text)
        return name

    @property
    def media(self) -> str:
        """Its media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Collector:
    """Takes what the parser finds."""

    def __init__(self, files: ExitStack) -> None:
        self.parts: list[BodyPart] = []
        self.is_complete = False
        self._files = files
        self._header: list[bytes] = []
        self._value: list[bytes] = []
        self._header_bytes = 0

    def on_part_begin(self) -> None:
        if len(self.parts) == _PARTS_MAX:
            raise _damaged(f"it has more than {_PARTS_MAX} parts")
        made = tempfile.TemporaryFile(prefix="omnigraph-part-")  # noqa: SIM115
        file = self._files.enter_context(made)
        self.parts.append(BodyPart(file))
        self._header_bytes = 0

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._take(self._header, data[start:end])

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._take(self._value, data[start:end])

    def _take(self, into: list[bytes], piece: bytes) -> None:
        self._header_bytes += len(piece)
        if self._header_bytes > _HEADER_BYTES_MAX:
            raise _damaged(f"the headers of a part have more than {_HEADER_BYTES_MAX} bytes")
        into.append(piece)

    def on_header_end(self) -> None:
        name = b"".join(self._header).decode("latin-1").lower()
        self.parts[-1].headers[name] = b"".join(self._value).decode("latin-1").strip()
        self._header, self._value = [], []

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].file.write(memoryview(data)[start:end])

    def on_end(self) -> None:
        self.is_complete = True


@contextmanager
def parts_of(content_type: str, body: Any) -> Iterator[list[BodyPart]]:
    """The parts of a body, each in a temporary file that is gone afterwards.

    Raises:
        InvalidInput: The body is damaged, or cut short.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise _damaged("its media type names no boundary")
    with ExitStack() as files:
        taken = _Collector(files)
        names = ("part_begin", "header_field", "header_value", "header_end", "part_data", "end")
        callbacks: Any = {f"on_{name}": getattr(taken, f"on_{name}") for name in names}
        parser = MultipartParser(found[1].encode("latin-1"), callbacks)
        try:
            while piece := body.read(_PIECE_BYTES):
                parser.write(piece)
        except MultipartParseError as error:
            raise _damaged(str(error)) from error
        if not taken.is_complete:
            raise _damaged("it ends before its last boundary")
        for part in taken.parts:
            part.file.seek(0)
        yield taken.parts


def _damaged(reason: str) -> InvalidInput:
    return InvalidInput(Code.INPUT_INVALID, f"the body of several parts cannot be read: {reason}")
