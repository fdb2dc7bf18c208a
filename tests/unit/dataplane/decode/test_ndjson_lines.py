"""Blocks of whole lines, and the lines in them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.dataplane.decode.lines import TooLong, blocks, find_lines
from omnigraph.dataplane.decode.ndjson import UNKNOWN, Router
from omnigraph.lang import compile_schema

TEXTS = st.lists(st.sampled_from([b"", b"\r", b"a", b"bc", b"d" * 9, b"e\r", b"\r\r"]), max_size=20)


@given(TEXTS, st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_blocks_are_the_lines_in_order(
    lines: list[bytes], size: int, block_bytes: int, is_ended: bool
) -> None:
    data = b"\n".join(lines) + (b"\n" if is_ended else b"")
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    found = list(blocks(iter(chunks), 100, block_bytes))
    assert all(isinstance(block, bytes) and block.endswith(b"\n") for block in found)
    whole = b"".join(block for block in found if isinstance(block, bytes))
    assert whole == (data if data.endswith(b"\n") or not data else data + b"\n")
    longest = max((len(line) for line in data.split(b"\n")), default=0)
    assert all(len(block) <= 2 * max(block_bytes, longest + 1) + size for block in found)  # type: ignore[arg-type]


@given(TEXTS, st.integers(1, 30))
def test_lines_that_are_far_too_long_are_stood_in_for(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    shown: list[bytes | None] = []
    for block in blocks(iter(chunks), 2, 5):
        shown += [None] if isinstance(block, TooLong) else block[:-1].split(b"\n")
    # A line that is there as a whole is measured by others.
    for line, came in zip(lines, shown, strict=True):
        assert came == line or (came is None and len(line) > 6)
    assert size > 2 or None not in shown or b"d" * 9 not in shown


@given(TEXTS.filter(bool), st.integers(1, 1000))
def test_lines_are_found_without_their_ends(lines: list[bytes], first: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    found, count = find_lines(data, first)
    expected = [
        (number, line.removesuffix(b"\r"))
        for number, line in enumerate(lines, first)
        if line.removesuffix(b"\r")
    ]
    assert count == len(lines)
    numbers = found.numbers.tolist()
    assert [(number, found.line(at)) for at, number in enumerate(numbers)] == expected


@given(TEXTS.filter(bool), st.data())
def test_gathered_lines_follow_each_other(lines: list[bytes], data: st.DataObject) -> None:
    found, _ = find_lines(b"".join(line + b"\n" for line in lines), 1)
    if not len(found):
        return
    chosen = data.draw(st.sets(st.integers(0, len(found) - 1), min_size=1))
    places = np.array(sorted(chosen))
    expected = [found.line(at) for at in places.tolist()]
    gathered = [line for line in found.gather(places).replace(b"\r", b"").split(b"\n") if line]
    assert gathered == [line.replace(b"\r", b"") for line in expected if line.strip(b"\r")]
    texts = found.texts(places).to_pylist()
    assert [text.startswith(line) for text, line in zip(texts, expected, strict=True)] == [
        True
    ] * len(places)


def test_chunks_of_other_kinds_and_sizes() -> None:
    chunks = [pa.py_buffer(b"a\nb"), b"", b"\nc\nd\ne", pa.py_buffer(b"")]
    assert list(blocks(iter(chunks), 100, 2)) == [b"a\n", b"b\n", b"c\n", b"d\n", b"e\n"]


# -- routes ----------------------------------------------------------------------------------------

LONG = "L" * 80
CATALOG = compile_schema(f"""
node A {{ x: I32? }}
node Ab {{ x: I32? }}
node {LONG} {{ x: I32? }}
edge A: A -> A
edge E: A -> Ab
""")
NAMES = [*(f"node {item.name}" for item in CATALOG.nodes), "edge A", "edge E"]


def _routed(router: Router, lines: list[bytes], *, by_name: bool = False) -> list[str | None]:
    found, _ = find_lines(b"".join(line + b"\n" for line in lines), 1)
    routes = router.by_beginning(found)
    if by_name:
        named = router.by_name(found, np.arange(len(found)))
        assert named is not None
        routes = named
    kinds = [f"{item.kind} {item.name}" for item in router.entities]
    return [None if route == UNKNOWN else kinds[route] for route in routes.tolist()]


@pytest.mark.parametrize("count", [1, 2, 50])
def test_lines_are_routed_by_how_they_begin(count: int) -> None:
    router = Router(CATALOG)
    lines = {
        b'{"type":"A"}': "node A",
        b'{"type": "A", "data": {}}': "node A",
        b'{"type":"Ab"}': "node Ab",
        b'{"type":"Abc"}': None,
        b'{"type":"a"}': None,
        b'{"type":  "A"}': None,
        b'{ "type":"A"}': None,
        b'{"edge":"A","type":"A"}': "edge A",
        b'{"edge": "E"': "edge E",
        b'{"edge":"Ab"}': None,
        b"{": None,
        f'{{"type":"{LONG}"}}'.encode(): None,  # as long a name is for the other way
    }
    for _ in range(2):  # what the first block had is looked for first in the second
        assert _routed(router, list(lines) * count) == list(lines.values()) * count
    for line, route in lines.items():
        assert _routed(router, [line]) == [route]


def test_lines_are_routed_by_the_name_they_have_somewhere() -> None:
    lines: dict[bytes, str | None] = {
        b'{"data":{"type":"Ab"}, "type" : "A"}': "node A",
        b'{"\\u0074ype":"\\u0041b"}': "node Ab",
        f'{{"type":"{LONG}"}}'.encode(): f"node {LONG}",
        b'{"from":"x","edge":"E"}': "edge E",
        b'{"edge":"A"}': "edge A",
        b'{"type":"Abc"}': None,
        b'{"type":"A","edge":"A"}': None,
        b'{"type":null,"edge":"A"}': "edge A",  # the reader will not have it
        b"{}": None,
    }
    assert _routed(Router(CATALOG), list(lines), by_name=True) == list(lines.values())


def test_lines_that_cannot_be_read_are_not_routed_by_name() -> None:
    for line in (b"{x}", b'{"type":5}', b'{"type":"A"}{"type":"A"}', b'{"type":"\xff"}'):
        found, _ = find_lines(line + b"\n", 1)
        assert Router(CATALOG).by_name(found, np.arange(1)) is None


def test_a_catalog_without_types_routes_nothing() -> None:
    assert _routed(Router(compile_schema("")), [b'{"type":"A"}']) == [None]
