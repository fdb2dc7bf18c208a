"""Facts about Lance: what a fork consists of. We write the same, in durable steps."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.store.forks.fork_records import reference_path
from omnigraph.store.integrity.torn_files import (
    Condition,
    condition_of_manifest,
    condition_of_record,
)
from omnigraph.store.model import Pin
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables, open_tables
from omnigraph.store.versions.files import manifest_name
from omnigraph.store.versions.gateway import Gateway

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
TIMESTAMP = 7


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The top-level fields of a message in Protocol Buffers: numbers, and bytes as they are."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        begin = at
        if key & 7 == 2:
            length = varint()
            begin, at = at, at + length
        else:
            assert key & 7 == 0
            varint()
        yield key >> 3, data[begin:at]


def content(file: Path) -> tuple[bytes, list[tuple[int, bytes]]]:
    """What a version file says: the transaction before its manifest, and the manifest, undated."""
    data = file.read_bytes()
    (start,) = struct.unpack("<Q", data[-16:-8])
    # The bases of a fork come in any order.
    undated = sorted(each for each in fields(data[start + 4 : -16]) if each[0] != TIMESTAMP)
    return data[:start], undated


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def tables(folder: Path) -> Tables:
    tables = open_tables(Root.parse(str(folder)), durable=True)
    tables.create("t", SCHEMA, rows=pa.table({"id": ["a", "b"]}, schema=SCHEMA))
    return tables


def grow(tables: Tables, pin: Pin) -> Pin:
    rows = pa.table({"id": [f"{pin.branch}-{pin.version}"]}, schema=SCHEMA)
    staged = tables.stage(tables.open(pin), inserts=rows, uuid=f"grow-{pin.version}")
    assert staged is not None
    return Pin(pin.path, tables.land(staged), pin.branch)


@pytest.mark.parametrize("parent", [None, "p", "p/q"])
def test_a_fork_is_what_lance_makes(folder: Path, tables: Tables, parent: str | None) -> None:
    at = grow(tables, Pin("t", 1))
    if parent is not None:
        tables.fork("t", parent, at)
        at = grow(tables, Pin("t", at.version, parent))
    name = manifest_name(at.version)
    theirs = lance.dataset(str(folder / "t")).create_branch("same", (parent, at.version))
    transaction = theirs.read_transaction(at.version)
    assert transaction is not None
    expected = content(folder / "t/tree/same/_versions" / name)

    gateway = Gateway(
        Root.parse(str(folder)), index_cache_bytes=1 << 20, metadata_cache_bytes=1 << 20
    )
    gateway.clone("clone", at, branch="same", uuid=str(transaction.uuid))
    assert content(folder / "clone/_versions" / name) == expected
    file = f"_transactions/{at.version}-{transaction.uuid}.txn"
    assert (folder / "clone" / file).read_bytes() == (folder / "t/tree/same" / file).read_bytes()


@pytest.mark.parametrize("parent", [None, "p", "p/q"])
def test_the_record_of_a_fork_is_what_lance_writes(
    folder: Path, tables: Tables, parent: str | None
) -> None:
    at = Pin("t", 1, parent)
    if parent is not None:
        tables.fork("t", parent, Pin("t", 1))
    lance.dataset(str(folder / "t")).create_branch("theirs", (parent, at.version))
    tables.fork("t", "ours", at)
    theirs, ours = (
        json.loads((folder / reference_path("t", name)).read_bytes()) for name in ("theirs", "ours")
    )
    assert abs(theirs.pop("createAt") - ours.pop("createAt")) <= 60
    steps = [record["identifier"]["version_mapping"] for record in (theirs, ours)]
    last = [mapping.pop() for mapping in steps]
    assert [len(name) for _, name in last] == [32, 32]
    assert last[0][0] == last[1][0] == at.version
    assert theirs == ours
    assert list(theirs) == list(ours)


def test_lance_takes_our_forks_for_its_own(folder: Path, tables: Tables) -> None:
    tables.fork("t", "a/b", Pin("t", 1))
    grow(tables, Pin("t", 1, "a/b"))
    tables.fork("t", "c", Pin("t", 2, "a/b"))
    table = lance.dataset(str(folder / "t"))
    assert sorted(table.branches.list()) == ["a/b", "c"]
    assert table.checkout_version(("c", None)).count_rows() == 3
    table.create_branch("d", ("c", 2))
    with pytest.raises(OSError, match="referenced by"):
        table.branches.delete("c")
    table.branches.delete("d")
    table.branches.delete("c")
    assert tables.fork_names("t") == ("a/b",)


def test_whole_files_of_lance_are_whole_and_what_is_cut_off_them_is_torn(
    folder: Path, tables: Tables
) -> None:
    lance.dataset(str(folder / "t")).create_branch("x", (None, 1))
    tables.fork("t", "y", grow(tables, Pin("t", 1)))
    manifests = list(folder.rglob("*.manifest"))
    assert len(manifests) == 4
    for file in manifests:
        data = file.read_bytes()
        assert condition_of_manifest(data) is Condition.WHOLE
        assert {condition_of_manifest(data[:n]) for n in range(len(data))} == {Condition.TORN}
        assert condition_of_manifest(bytes(len(data))) is Condition.TORN
        assert condition_of_manifest(data[:100] + bytes(len(data) - 100)) is Condition.TORN
    for name in ("x", "y"):
        data = (folder / reference_path("t", name)).read_bytes()
        assert condition_of_record(data) is Condition.WHOLE
        assert {condition_of_record(data[:n]) for n in range(len(data))} == {Condition.TORN}
        assert condition_of_record(bytes(len(data))) is Condition.TORN


def test_a_flipped_bit_is_never_taken_for_a_cut(folder: Path, tables: Tables) -> None:
    tables.fork("t", "y", Pin("t", 1))
    for file in folder.rglob("*.manifest"):
        data = bytearray(file.read_bytes())
        for position in range(len(data)):
            for bit in range(8):
                data[position] ^= 1 << bit
                assert condition_of_manifest(bytes(data)) is not Condition.TORN
                data[position] ^= 1 << bit
