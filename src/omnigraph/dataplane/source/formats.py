"""The format of a file: by its name, by what the user says, or by its first bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from omnigraph.dataplane.source.model import Compression, Format
from omnigraph.errors import Code, InvalidInput

_FORMATS: Final = {
    "ndjson": Format.NDJSON,
    "jsonl": Format.NDJSON,
    "json": Format.NDJSON,
    "csv": Format.CSV,
    "tsv": Format.TSV,
    "parquet": Format.PARQUET,
    "arrow": Format.ARROW,
    "ipc": Format.ARROW,
    "feather": Format.ARROW,
}
_PACKED: Final = {
    "gz": Compression.GZIP,
    "gzip": Compression.GZIP,
    "zst": Compression.ZSTD,
    "zstd": Compression.ZSTD,
}
ARROW_MAGIC: Final = b"ARROW1"  # the first bytes of a file; a stream of Arrow begins otherwise
_MAGIC_FORMATS: Final = ((b"PAR1", Format.PARQUET), (ARROW_MAGIC, Format.ARROW))
_MAGIC_PACKED: Final = ((b"\x1f\x8b", Compression.GZIP), (b"\x28\xb5\x2f\xfd", Compression.ZSTD))
_KNOWN: Final = "ndjson, csv, tsv, parquet or arrow"

# How many of the first bytes `sniffed` needs.
MAGIC_BYTES: Final = 6


def parse_format(text: str) -> tuple[Format, Compression]:
    """Read what the user calls a format: `csv`, `jsonl`, `ndjson.gz`.

    Raises:
        InvalidInput: There is no such format.
    """
    found = _by_suffixes(text.strip().lower().lstrip(".").split("."))
    if found is None:
        raise InvalidInput(
            Code.INPUT_INVALID,
            f"there is no format {text!r}: it is {_KNOWN}, followed by .gz or .zst if packed",
            format=text,
        )
    return _checked(found, text)


def format_of(name: str) -> tuple[Format, Compression]:
    """The format of a file, by the end of its name.

    Raises:
        InvalidInput: The name does not show it.
    """
    found = named_format(name)
    if found is None:
        raise InvalidInput(
            Code.INPUT_INVALID,
            f"{name}: the name does not tell the format; say format= with {_KNOWN}"
            " (files may be packed as .gz or .zst)",
            file=name,
        )
    return found


def named_format(name: str) -> tuple[Format, Compression] | None:
    """The format that the end of a name stands for; None for an unknown end."""
    start = name.find(".", name.rfind("/") + 1)
    found = None if start < 0 else _by_end(name[start + 1 :])
    return None if found is None else _checked(found, name)


def packing_of(name: str) -> Compression:
    """The compression of a file, by the end of its name."""
    return _PACKED.get(name.lower().rpartition(".")[2], Compression.NONE)


def sniffed(head: bytes) -> tuple[Format | None, Compression]:
    """The format and the compression that the first bytes of a stream show."""
    kinds = [kind for magic, kind in _MAGIC_FORMATS if head.startswith(magic)]
    packed = [kind for magic, kind in _MAGIC_PACKED if head.startswith(magic)]
    return (kinds[0] if kinds else None), (packed[0] if packed else Compression.NONE)


@lru_cache(maxsize=1024)
def _by_end(end: str) -> tuple[Format, Compression] | None:
    return _by_suffixes(end.lower().split("."))


def _by_suffixes(suffixes: list[str]) -> tuple[Format, Compression] | None:
    packed = Compression.NONE
    if suffixes and suffixes[-1] in _PACKED:
        packed = _PACKED[suffixes[-1]]
        suffixes = suffixes[:-1]
    kind = _FORMATS.get(suffixes[-1]) if suffixes else None
    return None if kind is None else (kind, packed)


def _checked(found: tuple[Format, Compression], name: str) -> tuple[Format, Compression]:
    if found[0] is Format.PARQUET and found[1] is not Compression.NONE:
        raise InvalidInput(
            Code.INPUT_INVALID,
            f"{name}: Parquet is packed inside and cannot be read through {found[1].value}",
            file=name,
        )
    return found
