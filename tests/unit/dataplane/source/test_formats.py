"""Formats by name, by word, by first bytes."""

import gzip

import pyarrow as pa
import pytest

from omnigraph.dataplane.source.formats import (
    format_of,
    named_format,
    packing_of,
    parse_format,
    sniffed,
)
from omnigraph.dataplane.source.model import Compression, Format
from omnigraph.errors import InvalidInput

PLAIN, GZIP, ZSTD = Compression.NONE, Compression.GZIP, Compression.ZSTD


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", (Format.NDJSON, PLAIN)),
        ("a.ndjson", (Format.NDJSON, PLAIN)),
        ("dir.csv/a.json", (Format.NDJSON, PLAIN)),
        ("a.b.JSONL.GZ", (Format.NDJSON, GZIP)),
        ("a.csv.zst", (Format.CSV, ZSTD)),
        ("a.tsv", (Format.TSV, PLAIN)),
        ("s3://bucket/a/Person-0001.parquet", (Format.PARQUET, PLAIN)),
        ("a.arrow", (Format.ARROW, PLAIN)),
        ("a.ipc", (Format.ARROW, PLAIN)),
        ("a.feather.zstd", (Format.ARROW, ZSTD)),
        ("part-0.snappy.parquet", (Format.PARQUET, PLAIN)),
    ],
)
def test_names_tell(name: str, expected: tuple[Format, Compression]) -> None:
    assert format_of(name) == expected


@pytest.mark.parametrize("name", ["a", "a.gz", "csv", "a.jsonl.bz2", "a.txt", "a.csv/b", ""])
def test_some_names_tell_nothing(name: str) -> None:
    assert named_format(name) is None
    with pytest.raises(InvalidInput, match="format=") as caught:
        format_of(name)
    assert caught.value.details["file"] == name


def test_packed_parquet_is_refused() -> None:
    with pytest.raises(InvalidInput, match="packed inside"):
        format_of("a.parquet.gz")
    with pytest.raises(InvalidInput, match="packed inside"):
        parse_format("parquet.zst")


def test_formats_by_word() -> None:
    assert parse_format("jsonl") == (Format.NDJSON, PLAIN)
    assert parse_format(" CSV ") == (Format.CSV, PLAIN)
    assert parse_format(".ndjson.gz") == (Format.NDJSON, GZIP)
    with pytest.raises(InvalidInput, match="there is no format 'xml'"):
        parse_format("xml")


def test_packing_alone() -> None:
    assert packing_of("data.gz") is GZIP
    assert packing_of("data.csv.zst") is ZSTD
    assert packing_of("data.csv") is PLAIN
    assert packing_of("data") is PLAIN


def test_first_bytes() -> None:
    assert sniffed(gzip.compress(b"x")) == (None, GZIP)
    assert sniffed(pa.compress(b"x", "zstd", asbytes=True)) == (None, ZSTD)
    assert sniffed(b"PAR1..") == (Format.PARQUET, PLAIN)
    assert sniffed(b"ARROW1") == (Format.ARROW, PLAIN)
    assert sniffed(b'{"type') == (None, PLAIN)
    assert sniffed(b"") == (None, PLAIN)
