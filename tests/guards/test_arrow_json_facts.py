"""What the NDJSON decoder relies on in Arrow's JSON reader, and in its casts from text."""

import pyarrow as pa
import pyarrow.json as pj
import pytest

SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        (
            "data",
            pa.struct(
                [
                    ("i32", pa.int32()),
                    ("u64", pa.uint64()),
                    ("f32", pa.float32()),
                    ("f64", pa.float64()),
                    ("s", pa.string()),
                    ("b", pa.bool_()),
                    ("list", pa.list_(pa.int64())),
                    ("vector", pa.list_(pa.float32())),
                ]
            ),
        ),
    ]
)


def read(text: bytes, schema: pa.Schema = SCHEMA, behaviour: str = "error") -> pa.Table:
    return pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour),
    )


def data(members: bytes) -> bytes:
    return b'{"type":"A","data":{' + members + b"}}\n"


# -- what it refuses, so that nobody else need look for it -----------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        *(
            b'"i32":1.0',
            b'"i32":1e3',
            b'"i32":2147483648',
            b'"i32":"1"',
            b'"i32":true',
            b'"i32":[]',
        ),
        *(b'"u64":-1', b'"u64":18446744073709551616', b'"list":[1,1.0]', b'"list":{}', b'"list":1'),
        *(b'"f64":1e400', b'"f64":"1"', b'"f64":01', b'"f64":1.', b'"f64":.5', b'"f64":+1'),
        *(b'"b":1', b'"b":"true"', b'"s":1', b'"s":true', b'"s":{}', b'"s":[]', b'"s":NaN'),
        *(b'"vector":[1,"2"]', b'"vector":[[1]]', b'"i32":NaN', b'"list":[NaN]'),
        b'"unknown":1',
        b'"unknown":null',
        b'"s":"x","s":"x"',
        b'"s":null,"s":null',
        b'"s":"x","\\u0073":"x"',
        b'"s":"\\ud800"',
        b'"s":"\\udc00"',
        b'"s":"\\ud800\\u0041"',
        b'"s":"\\x"',
        b'"s":"a\tb"',
        b'"s":"a\nb"',
        b'"s":"a\0b"',
        b'"s":"x",',
        b'"s":"x" /* comment */',
        b"'s':\"x\"",
    ],
)
def test_values_and_members_that_are_refused(members: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read(data(members))


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"A","type":"A"}\n',
        b'{"type":"A"} garbage\n',
        b'{"type":"A"}}\n',
        b'{"type":"A"},\n{"type":"A"}\n',
        b'{"type":"A"}\0{"type":"A"}\n',
        b'{"type":"A"\0}\n',
        b'{"type":"A"}\n\0{"type":"A"}\n',
        b'{"type":"A"}\n[]\n',
        b'{"type":"A"}\n5\n',
        b'{"type":"A"}\n\xef\xbb\xbf{"type":"A"}\n',
        b'{"type":"A","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"type":"A","data":5}\n',
    ],
)
def test_texts_that_are_refused(text: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read(text)


# -- what it takes as the decoder does -------------------------------------------------------------


def test_numbers_are_read_from_their_digits() -> None:
    members = b'"i32":-0,"u64":18446744073709551615,"f32":1.00000017881393432617187499,"f64":-0'
    (row,) = read(data(members)).column("data").to_pylist()
    assert row["i32"] == 0
    assert row["u64"] == 2**64 - 1
    assert repr(row["f64"]) == "-0.0"
    texts = pa.array(["1.00000017881393432617187499"])
    assert row["f32"] == texts.cast(pa.float32())[0].as_py()


def test_rows_come_in_the_order_of_the_text_and_in_one_piece() -> None:
    text = b"".join(b'{"type":"%d"}\n' % number for number in range(50_000))
    table = read(text)
    assert table.column("type").num_chunks == 1
    assert table.column("type").to_pylist() == [str(number) for number in range(50_000)]


def test_an_object_that_is_missing_has_members_that_are_null() -> None:
    table = read(b'{"type":"A"}\n' + data(b'"i32":1') + b'{"type":"A","data":null}\n')
    (chunk,) = table.column("data").chunks
    assert chunk.is_null().to_pylist() == [True, False, True]
    assert chunk.field(0).to_pylist() == [None, 1, None]


def test_unknown_members_can_be_passed_over() -> None:
    schema = pa.schema([("type", pa.string()), ("edge", pa.string())])
    text = b'{"data":{"type":"B","x":[1,{}]},"type":"A"}\n{"edge":"E","from":5}\n'
    assert read(text, schema, "ignore").to_pylist() == [
        {"type": "A", "edge": None},
        {"type": None, "edge": "E"},
    ]


# -- what it takes though it should not: the decoder looks for it ----------------------------------


def test_it_counts_objects_and_not_lines() -> None:
    assert read(b'{"type":"A"}{"type":"A"}\n{"type":\n"A"}\n\n').num_rows == 3


def test_it_takes_null_for_an_object() -> None:
    assert read(b'{"type":"A"}\nnull\n').num_rows == 2


def test_it_passes_over_a_byte_order_mark() -> None:
    assert read(b'\xef\xbb\xbf{"type":"A"}\n').num_rows == 1


def test_it_does_not_look_at_the_encoding() -> None:
    column = read(data(b'"s":"\xff"')).column("data").chunk(0).field("s")
    with pytest.raises(pa.ArrowInvalid):
        column.validate(full=True)


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity", b"Inf", b"1e39"])
def test_it_takes_numbers_that_are_not_finite(text: bytes) -> None:
    column = read(data(b'"f32":' + text)).column("data").chunk(0).field("f32")
    assert not pa.compute.is_finite(column)[0].as_py()


def test_it_does_not_know_how_long_a_vector_is() -> None:
    column = read(data(b'"vector":[1,null,3]')).column("data").chunk(0).field("vector")
    assert column.to_pylist() == [[1, None, 3]]


# -- casts -----------------------------------------------------------------------------------------


def test_casts_to_dates_know_the_year_zero() -> None:
    found = pa.array(["0000-01-01"]).cast(pa.date32()).cast(pa.int32())
    assert found.to_pylist() == [-719528]


@pytest.mark.parametrize("text", ["2024-01-01T12Z", "2024-01-01T12:00+01"])
def test_casts_to_moments_take_less_than_a_moment(text: str) -> None:
    assert pa.array([text]).cast(pa.timestamp("ms", tz="UTC")).null_count == 0


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2024-01-01T12:00", "UTC"),
        ("2024-01-01T12:00Z", None),
        ("2024-01-01T12:00:00.1234Z", "UTC"),
    ],
)
def test_casts_to_moments_are_strict_about_zones_and_digits(text: str, zone: str | None) -> None:
    with pytest.raises(pa.ArrowInvalid):
        pa.array([text]).cast(pa.timestamp("ms", tz=zone))
