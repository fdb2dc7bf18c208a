"""The decoder says what the simple one says, however the bytes come."""

from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.ndjson import decode_ndjson
from omnigraph.dataplane.decode.row_wise import RowWiseDecoder
from omnigraph.rules.violation import Violations
from tests.examples import examples
from tests.property.ndjson_reference import read
from tests.property.ndjson_texts import ABSENCES, CATALOG, Outcome, expected, files, outcome

LINE_BYTES_MAX = 250
SPEC = DecodeSpec(catalog=CATALOG, absences=ABSENCES, line_bytes_max=LINE_BYTES_MAX)


def _chunks(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        yield data[at : at + size]
        at, number = at + size, number + 1


def decode(data: bytes, sizes: list[int], block_bytes: int) -> Outcome:
    out, stats = Violations(100_000), DecodeStats()
    items = list(
        decode_ndjson(
            _chunks(data, sizes),
            SPEC,
            out,
            stats,
            file="f",
            is_start=True,
            block_bytes=block_bytes,
        )
    )
    found = outcome(items, out)
    assert stats.rows == len(found.rows)
    assert all(item.file == "f" for item in out.items)
    found.lines = stats.lines
    return found


def row_by_row(data: bytes) -> Outcome:
    """What the row_wise way alone makes of a file."""
    out = Violations(100_000)
    row_wise = RowWiseDecoder(SPEC, out, "f")
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    good = [(number, line) for number, line in enumerate(lines, 1) if len(line) <= LINE_BYTES_MAX]
    return outcome(list(row_wise.decode(good)), out)


@given(
    files(),
    st.lists(st.integers(1, 400), min_size=1, max_size=4),
    st.sampled_from([1, 100, 1000, 8 << 20]),
    st.sampled_from([1, 3, 256]),
)
@examples(120)
@example(b"", [1], 1, 1)
@example(b"\xff\xfe\n\0\n\0", [1], 1, 1)
def test_the_decoder_agrees_with_the_simple_one(
    data: bytes, sizes: list[int], block_bytes: int, few: int
) -> None:
    # Where lines are divided to find the ones that are not in order.
    with tuning.tuned(row_wise_lines_max=few):
        found = decode(data, sizes, block_bytes)
    assert found == expected(read(data, CATALOG, LINE_BYTES_MAX), CATALOG)


@given(files())
@examples(60)
def test_the_fast_way_and_the_careful_way_agree(data: bytes) -> None:
    data = data.removeprefix(b"\xef\xbb\xbf")
    fast, slow = decode(data, [8 << 20], 8 << 20), row_by_row(data)
    assert fast.rows == slow.rows
    assert fast.claimed == slow.claimed
