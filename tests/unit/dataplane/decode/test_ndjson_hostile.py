"""Input that was made to hurt: the exact line and field, nothing else lost, memory bounded."""

import tracemalloc
from collections.abc import Iterator

import pytest

from omnigraph.dataplane.decode.json_line import DEPTH_MAX, MEMBERS_MAX
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.ndjson import decode_ndjson
from omnigraph.lang import compile_schema
from omnigraph.rules.violation import Violations

CATALOG = compile_schema("""
node Person {
  name: String @key
  age: I64?
  rating: F64?
  vector: Vector(2)?
}
node Odd { type: String? }
edge Knows: Person -> Person
""")
GOOD = b'{"type":"Person","data":{"name":"a"}}'
Found = list[tuple[int | None, str, str]]


def decode(
    chunks: Iterator[bytes], *, line_bytes_max: int = 1 << 20, is_start: bool = True
) -> tuple[list[int], Found, DecodeStats]:
    """The lines of good rows, and line, rule and property of violations."""
    out, stats = Violations(), DecodeStats()
    spec = DecodeSpec(catalog=CATALOG, line_bytes_max=line_bytes_max)
    rows: list[int] = []
    for item in decode_ndjson(chunks, spec, out, stats, file="f", is_start=is_start):
        item.rows.validate(full=True)
        rows += item.lines.tolist()
    found = [(item.line, item.rule.value, ",".join(item.properties)) for item in out.items]
    assert all(item.message.isprintable() for item in out.items)
    assert stats.rows == len(rows)
    return sorted(rows), found, stats


def data(text: bytes) -> bytes:
    return b'{"type":"Person","data":{"name":"x",' + text + b"}}"


HOSTILE = {
    "broken utf-8": (b'{"type":"Person","data":{"name":"\xff"}}', "syntax", ""),
    "overlong utf-8": (b'{"type":"Person","data":{"name":"\xc0\xaf"}}', "syntax", ""),
    "utf-8 surrogate": (b'{"type":"Person","data":{"name":"\xed\xa0\x80"}}', "syntax", ""),
    "cut utf-8": (b'{"type":"Person","data":{"name":"\xe2\x82"}}', "syntax", ""),
    "lone surrogate": (b'{"type":"Person","data":{"name":"\\ud800"}}', "type", "name"),
    "low surrogate": (b'{"type":"Person","data":{"name":"\\udc00 "}}', "type", "name"),
    "nul": (b"\0", "syntax", ""),
    "nul after": (GOOD + b"\0", "syntax", ""),
    "nul between": (GOOD + b"\0" + GOOD, "syntax", ""),
    "nul in text": (b'{"type":"Person","data":{"name":"\0"}}', "syntax", ""),
    "control character": (b'{"type":"Person","data":{"name":"\x01"}}', "syntax", ""),
    "two objects": (GOOD + GOOD, "syntax", ""),
    "two objects apart": (GOOD + b" " + GOOD, "syntax", ""),
    "trailing comma": (GOOD + b",", "syntax", ""),
    "trailing garbage": (GOOD + b"}", "syntax", ""),
    "truncated": (GOOD[:-1], "syntax", ""),
    "not an object": (b'"Person"', "syntax", ""),
    "null": (b"null", "syntax", ""),
    "deep list": (data(b'"age":' + b"[" * 100_000 + b"]" * 100_000), "syntax", ""),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "syntax", ""),
    "deep and open": (b"[" * 100_000, "syntax", ""),
    "deep enough": (data(b'"age":' + b"[" * 62 + b"]" * 62), "type", "age"),
    "brackets in text": (data(b'"age":"' + b"[" * 200 + b'"'), "type", "age"),
    "repeated member": (data(b'"age":1,"age":1'), "field", "age"),
    "repeated member, escaped": (data(b'"age":1,"\\u0061ge":1'), "field", "age"),
    "repeated member, null": (data(b'"age":null,"age":null'), "field", "age"),
    "repeated type": (b'{"type":"Person","type":"Person"}', "field", "type"),
    "repeated data": (b'{"type":"Person","data":{},"data":{}}', "field", "data"),
    "repeated below": (data(b'"age":{"a":1,"a":1}'), "type", "age"),
    "NaN": (data(b'"rating":NaN'), "finite", "rating"),
    "Infinity": (data(b'"rating":Infinity'), "finite", "rating"),
    "-Infinity": (data(b'"rating":-Infinity'), "finite", "rating"),
    "Inf": (data(b'"rating":Inf'), "syntax", ""),
    "NaN in a vector": (data(b'"vector":[1,NaN]'), "finite", "vector"),
    "huge float": (data(b'"rating":1e999'), "type", "rating"),
    "huge integer": (data(b'"age":1' + b"0" * 5000), "type", "age"),
    "integer as float": (data(b'"age":1.0'), "type", "age"),
    "integer as exponent": (data(b'"age":1e2'), "type", "age"),
    "leading zero": (data(b'"age":01'), "syntax", ""),
    "short vector": (data(b'"vector":[1]'), "vector_length", "vector"),
    "long vector": (data(b'"vector":[1,2,3]'), "vector_length", "vector"),
    "empty vector": (data(b'"vector":[]'), "vector_length", "vector"),
    "nested vector": (data(b'"vector":[[1,2]]'), "vector_length", "vector"),
    "text in a vector": (data(b'"vector":[1,"2"]'), "type", "vector"),
    "null in a vector": (data(b'"vector":[1,null]'), "type", "vector"),
    "mark in the middle": (b"\xef\xbb\xbf" + GOOD, "syntax", ""),
    "form feed": (b"\x0c" + GOOD, "syntax", ""),
    "no-break space": (b"\xc2\xa0" + GOOD, "syntax", ""),
    "comment": (GOOD + b" // a", "syntax", ""),
    "unprintable field": (data(b'"\\u0000\\ud800\\n":1'), "field", " ? "),
    "too many members": (
        b'{"type":"Person",' + b",".join(b'"%d":1' % n for n in range(MEMBERS_MAX)) + b"}",
        "syntax",
        "",
    ),
}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", HOSTILE)
def test_one_hostile_line_among_good_ones(name: str, end: bytes) -> None:
    line, rule, field = HOSTILE[name]
    text = end.join([GOOD, b"", GOOD, line, GOOD, GOOD])
    rows, found, stats = decode(iter([text]))
    assert (rows, found) == ([1, 3, 5, 6], [(4, rule, field)])
    assert stats.lines == 6


def test_all_hostile_lines_together() -> None:
    lines: list[bytes] = []
    expected: Found = []
    for line, rule, field in HOSTILE.values():
        lines += [line, GOOD]
        expected.append((len(lines) - 1, rule, field))
    rows, found, stats = decode(iter([b"\n".join(lines)]))
    assert found == expected
    assert rows == list(range(2, stats.lines + 1, 2))


def test_objects_over_lines_cannot_hide_behind_two_on_one_line() -> None:
    """As many objects as lines, but not one on each; and each line begins as it should."""
    spread = b'{"type":"Odd","data":\n{"type":"Odd"}}\n'
    double = b'{"type":"Odd"}{"type":"Odd"}\n'
    rows, found, _ = decode(iter([spread + double]))
    assert rows == []
    assert found == [(1, "syntax", ""), (2, "syntax", ""), (3, "syntax", "")]


@pytest.mark.parametrize(
    ("text", "lines", "rows"),
    [
        (b"", 0, []),
        (b"\n", 1, []),
        (b"\r\n\r\n", 2, []),
        (b" \t\r\n", 1, []),
        (b"\n\n" + GOOD, 3, [3]),
        (GOOD, 1, [1]),
        (GOOD + b"\n", 1, [1]),
        (GOOD + b"\r", 1, [1]),
        (b" " + GOOD + b"\t\n", 1, [1]),
        (b"\xef\xbb\xbf" + GOOD + b"\n" + GOOD, 2, [1, 2]),
        (b"\xef\xbb\xbf\n" + GOOD, 2, [2]),
        (GOOD + b"\n\n\n" + GOOD + b"\n\n", 5, [1, 4]),
    ],
)
def test_blank_lines_and_ends(text: bytes, lines: int, rows: list[int]) -> None:
    found = decode(iter([text]))
    assert found == (rows, [], DecodeStats(lines=lines, rows=len(rows)))
    assert decode(text[at : at + 1] for at in range(len(text))) == found


def test_a_byte_order_mark_belongs_to_the_beginning_of_a_file() -> None:
    rows, found, _ = decode(iter([b"\xef\xbb\xbf" + GOOD]), is_start=False)
    assert (rows, found) == ([], [(1, "syntax", "")])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_once(encoding: str) -> None:
    text = "\ufeff" + (GOOD.decode() + "\n") * 3
    rows, found, _ = decode(iter([text.encode(encoding)]))
    assert (rows, found) == ([], [(1, "syntax", "")])


# -- long lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["LF", "CRLF", "end"])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
@pytest.mark.parametrize("extra", range(-1, 8))
def test_the_longest_line(extra: int, mark: bytes, size: int, end: bytes) -> None:
    bound = 50
    line = b'{"type":"Person","data":{"name":"' + b"x" * (bound - 36 + extra) + b'"}}'
    assert len(line) == bound + extra
    text = mark + line + end + (GOOD if end else b"")
    chunks = (text[at : at + size] for at in range(0, len(text), size))
    rows, found, _ = decode(chunks, line_bytes_max=bound)
    following = [2] if end else []
    if extra > 0:
        assert (rows, found) == (following, [(1, "syntax", "")])
    else:
        assert (rows, found) == ([1, *following], [])


def test_the_bound_is_named() -> None:
    out = Violations()
    spec = DecodeSpec(catalog=CATALOG, line_bytes_max=9)
    assert not list(decode_ndjson(iter([GOOD]), spec, out, DecodeStats(), file="f", is_start=True))
    assert [item.message for item in out.items] == ["the line is longer than 9 bytes"]


def test_a_huge_line_is_never_held() -> None:
    chunk = b"x" * (1 << 20)

    def chunks() -> Iterator[bytes]:
        yield GOOD + b"\n" + GOOD[:10]
        for _ in range(200):
            yield chunk
        yield b"\n" + GOOD + b"\n"

    tracemalloc.start()
    try:
        rows, found, stats = decode(chunks(), line_bytes_max=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (rows, found, stats.lines) == ([1, 3], [(2, "syntax", "")], 3)
    assert peak < 32 << 20


def test_many_huge_lines_in_one_chunk() -> None:
    text = (b"y" * 3000 + b"\n" + GOOD + b"\n") * 3
    rows, found, _ = decode(iter([text]), line_bytes_max=1000)
    assert rows == [2, 4, 6]
    assert found == [(1, "syntax", ""), (3, "syntax", ""), (5, "syntax", "")]


def test_a_long_line_within_the_bound_is_read() -> None:
    name = b"n" * (9 << 20)
    text = b'{"type":"Person","data":{"name":"' + name + b'"}}\n' + GOOD
    chunks = (text[at : at + (1 << 20)] for at in range(0, len(text), 1 << 20))
    assert decode(chunks, line_bytes_max=16 << 20)[:2] == ([1, 2], [])


def test_nesting_is_bounded_whoever_calls() -> None:
    """The bound is ours: what Python's stack allows depends on how deep the caller is."""
    deepest = data(b'"age":' + b"[" * (DEPTH_MAX - 2) + b"]" * (DEPTH_MAX - 2))
    deeper = data(b'"age":' + b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1))

    def at(depth: int, line: bytes) -> Found:
        return at(depth - 1, line) if depth else decode(iter([line]))[1]

    for depth in (0, 600):
        assert at(depth, deepest) == [(1, "type", "age")]
        assert at(depth, deeper) == [(1, "syntax", "")]
