"""Lines of JSON become rows."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.ndjson import decode_ndjson
from omnigraph.dataplane.decode.row_wise import RowWiseDecoder
from omnigraph.lang import compile_schema
from omnigraph.rules.violation import Rule, Violation, Violations

CATALOG = compile_schema("""
node Person {
  name: String @key
  age: I32?
  born: Date?
  seen: DateTime?
  days: [Date]?
  vector: Vector(2)?
  photo: Blob?
  rating: F32?
}
node Note { text: String? }
node Odd {
  data: String?
  type: String?
}
edge Knows: Person -> Person { since: Date? }
edge Rated: Person -> Note {
  stars: I32?
  @key(src, dst)
}
""")
AbsentProperties = Mapping[str, frozenset[str]]


class Read:
    """What came out of some lines."""

    def __init__(
        self, text: str | bytes, absences: AbsentProperties | None = None, **options: Any
    ) -> None:
        self.out, self.stats = Violations(), DecodeStats()
        data = text.encode() if isinstance(text, str) else text
        spec = DecodeSpec(catalog=CATALOG, absences=absences or {})
        options = {"file": "people.jsonl", "is_start": True, **options}
        self.items = list(decode_ndjson(iter([data]), spec, self.out, self.stats, **options))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a type, without nulls."""
        rows = [row for item in self.of(name) for row in item.rows.to_pylist()]
        return [{key: cell for key, cell in row.items() if cell is not None} for row in rows]

    def of(self, name: str) -> list[Decoded]:
        return [item for item in self.items if item.entity.name == name]

    @property
    def found(self) -> list[tuple[int | None, str, str]]:
        """The line, rule and property of each violation."""
        return [(item.line, item.rule.value, ",".join(item.properties)) for item in self.out.items]


def lines(values: Iterable[object], **options: Any) -> str:
    return "".join(json.dumps(value, **options) + "\n" for value in values)


def people(count: int) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(count)]


@pytest.fixture
def only_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Good lines must not be read one at a time."""

    def refuse(_: RowWiseDecoder, lines: Iterable[tuple[int, bytes]]) -> None:
        pytest.fail(f"the row_wise way for {list(lines)[:3]}")

    monkeypatch.setattr(RowWiseDecoder, "decode", refuse)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_fast")
def test_nodes_and_edges_come_apart_with_their_lines() -> None:
    read = Read(
        '{"type":"Person","data":{"name":"ada","age":36}}\n'
        '{"edge":"Knows","from":"ada","to":"bo","data":{"since":"2020-01-01"}}\n'
        '{"type": "Person", "data": {"name": "bo"}}\n'
        '{"edge": "Knows", "from": "bo", "to": "ada"}\n'
        '{"type":"Note"}\n'
    )
    assert not read.out
    assert (read.stats.lines, read.stats.rows) == (5, 5)
    assert read.rows("Person") == [{"name": "ada", "age": 36}, {"name": "bo"}]
    assert read.rows("Knows") == [
        {"src": "ada", "dst": "bo", "since": date(2020, 1, 1)},
        {"src": "bo", "dst": "ada"},
    ]
    assert read.rows("Note") == [{}]
    places = {item.entity.name: item.lines.tolist() for item in read.items}
    assert places == {"Person": [1, 3], "Knows": [2, 4], "Note": [5]}


@pytest.mark.parametrize("broken", ["", '{"type":"Person","data":{"age":[]}}\n'])
def test_rows_have_the_columns_of_their_table(broken: str) -> None:
    read = Read('{"type":"Person","data":{"name":"ada","vector":[1,2]}}\n' + broken)
    (item,) = read.of("Person")
    stored = table_schema(item.entity)
    assert item.rows.schema.names == stored.names
    assert item.rows.schema.types == stored.types
    assert all(field.nullable for field in item.rows.schema)
    assert item.rows.schema.field("photo").metadata == stored.field("photo").metadata
    assert item.lines.dtype == np.int64
    item.rows.validate(full=True)


VALUES: list[dict[str, Any]] = [
    {"born": "1815-12-10", "seen": "1852-11-27T12:00:00.123Z"},
    {"born": -56270, "seen": -1},
    {"born": "1815-12-10", "seen": 0},
    {"days": ["2020-01-01", None]},
    {"days": [0, None, 18262]},
    {"days": []},
    {"vector": [0.1, -3], "rating": 0.1},
    {"photo": "base64:aGk="},
    {"age": None, "born": None, "seen": None, "days": None, "vector": None, "photo": None},
    {},
]


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize("data", VALUES, ids=json.dumps)
def test_values_take_the_fast_way(data: dict[str, Any]) -> None:
    (row,) = Read(lines([{"type": "Person", "data": {"name": "ada", **data}}])).rows("Person")
    assert row.keys() - {"name"} == {name for name, value in data.items() if value is not None}


def test_all_values_at_once_agree_with_one_at_a_time() -> None:
    text = lines(
        {"type": "Person", "data": {"name": f"{n}", **data}} for n, data in enumerate(VALUES)
    )
    read = Read(text)
    assert not read.out
    rows = read.rows("Person")
    assert rows[0]["born"] == date(1815, 12, 10)
    assert rows[0]["seen"] == datetime(1852, 11, 27, 12, 0, 0, 123000, tzinfo=UTC)
    assert rows[1]["born"] == rows[0]["born"]
    assert rows[3]["days"] == [date(2020, 1, 1), None]
    assert rows[4]["days"] == [date(1970, 1, 1), None, date(2020, 1, 1)]
    assert rows[6] == {"name": "6", "vector": [np.float32(0.1), -3.0], "rating": np.float32(0.1)}
    assert rows[7]["photo"] == b"hi"
    alone = [row for line in text.splitlines() for row in Read(line).rows("Person")]
    assert rows == alone


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"separators": (",", ":")},
        {"separators": (" , ", " : ")},
        {"sort_keys": True},
        {"ensure_ascii": False},
    ],
    ids=str,
)
def test_no_usual_way_to_write_json_is_slow(options: dict[str, Any]) -> None:
    values: list[dict[str, Any]] = []
    for number in range(20):
        data: dict[str, Any] = {"name": f"pé{number}", "born": "2000-01-01"}
        data |= {"vector": [number, 1]} if number % 2 else {}
        values.append({"type": "Person", "data": data})
        values.append({"edge": "Knows", "from": "a", "to": "b"})
    read = Read(lines(values, **options).replace("\n", "\r\n"))
    assert (read.stats.lines, read.stats.rows, read.out.total) == (40, 40, 0)


@pytest.mark.usefixtures("only_fast")
def test_members_that_come_late_are_not_lost() -> None:
    values = people(1000)
    values[901]["data"]["vector"] = [1, 2]
    values[901]["id"] = "p901"
    read = Read(lines(values))
    assert [row for row in read.rows("Person") if "vector" in row] == [
        {"id": "p901", "name": "p901", "age": 901, "vector": [1, 2]}
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "Note", "data": {"id": "n"}}',
        '{"type": "Note", "id": "n"}',
        '{"type": "Note", "id": "n", "data": {}}',
        '{"type": "Note", "id": "n", "data": null}',
        '{"type": "Note", "id": "n", "data": {"id": null}}',
        '{"type": "Note", "id": null, "data": {"id": "n"}}',
        '{"id": "n", "data": {}, "type": "Note"}',
    ],
)
@pytest.mark.usefixtures("only_fast")
def test_an_id_stands_in_the_data_or_beside_it(line: str) -> None:
    assert Read(line).rows("Note") == [{"id": "n"}]


def test_two_ids_are_one_too_many() -> None:
    read = Read('{"type": "Note", "id": "n", "data": {"id": "n"}}')
    assert read.found == [(1, "field", "id")]
    assert read.of("Note")[0].claimed == ("n",)


def test_chunks_may_be_buffers() -> None:
    out, stats = Violations(), DecodeStats()
    chunks = [pa.py_buffer(b'{"type":"No'), pa.py_buffer(b""), pa.py_buffer(b'te"}\n')]
    (item,) = decode_ndjson(
        iter(chunks),
        DecodeSpec(catalog=CATALOG),
        out,
        stats,
        file="f",
        is_start=True,
        block_bytes=4,
    )
    assert (item.entity.name, item.lines.tolist(), stats.rows) == ("Note", [1], 1)


# -- what a line does not name ---------------------------------------------------------------------


def _absent(read: Read, name: str, column: str) -> list[int]:
    """The lines that do not name a property."""
    return [
        line
        for item in read.of(name)
        for line, mask in zip(
            item.lines.tolist(),
            item.absent[column].to_pylist() if column in item.absent else [False] * len(item.lines),
            strict=True,
        )
        if mask
    ]


ABSENT = [
    '{"type":"Person","data":{"name":"a","age":1}}',
    '{"type":"Person","data":{"name":"b"}}',
    '{"type":"Person","data":{"name":"c","age":null}}',
    '{"type":"Person","data":{"name":"d","age" :\\t null}}'.replace("\\t", "\t"),
    '{"type":"Person","data":null}',
    '{"type":"Person"}',
    r'{"type":"Person","data":{"name":"e","\u0061ge":null}}',
    r'{"type":"Person","data":{"name":"\u0061ge"}}',
    r'{"type":"Person","data":{"name":"\"age\":null"}}',
    r'{"type":"Person","data":{"name":"age"}}',
    r'{"type":"Person","data":{"name":"\\","age":null}}',
]


@pytest.mark.parametrize("broken", [False, True])
def test_absent_is_not_null(broken: bool) -> None:
    text = [*ABSENT, '{"type":"Person","data":5}'] if broken else ABSENT
    read = Read("\n".join(text), {"node:Person": frozenset({"age"})})
    assert read.stats.rows == len(ABSENT)
    assert _absent(read, "Person", "age") == [2, 5, 6, 8, 9, 10]
    assert all(item.absent.keys() == {"age"} for item in read.items)


@pytest.mark.usefixtures("only_fast")
def test_absences_are_found_fast() -> None:
    read = Read("\n".join(ABSENT), {"node:Person": frozenset({"age", "vector"})})
    assert _absent(read, "Person", "age") == [2, 5, 6, 8, 9, 10]
    assert _absent(read, "Person", "vector") == list(range(1, len(ABSENT) + 1))


@pytest.mark.parametrize("chosen", list(combinations(range(len(ABSENT)), 3)))
def test_absences_do_not_depend_on_other_lines(chosen: tuple[int, ...]) -> None:
    """Three lines at a time: in some all name it, in some none, in some a text looks like it."""
    absent = {1, 4, 5, 7, 8, 9}
    read = Read("\n".join(ABSENT[at] for at in chosen), {"node:Person": frozenset({"age"})})
    expected = [line for line, at in enumerate(chosen, 1) if at in absent]
    assert _absent(read, "Person", "age") == expected


def test_properties_with_the_names_of_what_stands_around() -> None:
    read = Read(
        '{"type":"Odd","data":{"data":null,"type":"x"}}\n'
        '{"type":"Odd","data":{}}\n'
        '{"type":"Odd","data":{"type":null,"data":"x"}}\n'
        '{"type":"Odd","data":null}\n',
        {"node:Odd": frozenset({"data", "type"})},
    )
    assert _absent(read, "Odd", "data") == [2, 4]
    assert _absent(read, "Odd", "type") == [2, 4]


def test_columns_that_every_line_names_are_not_listed() -> None:
    read = Read(ABSENT[0] + "\n" + ABSENT[2], {"node:Person": frozenset({"age", "name"})})
    assert [dict(item.absent) for item in read.items] == [{}]


def test_absences_are_told_on_demand_only() -> None:
    assert [dict(item.absent) for item in Read("\n".join(ABSENT)).items] == [{}]


# -- lines that are not in order -------------------------------------------------------------------


def _violation(line: str, **options: Any) -> Violation:
    (found,) = Read(line, **options).out.items
    return found


def test_a_violation_says_everything_it_knows() -> None:
    found = _violation('\n{"type":"Person","data":{"name":"ada","age":"old"}}')
    assert found == Violation(
        rule=Rule.TYPE,
        kind="node",
        type_name="Person",
        id="ada",
        properties=("age",),
        value="old",
        message="Person.age of 'ada': expected I32, got text 'old'",
        file="people.jsonl",
        line=2,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "expected an object, got a list"),
        ("{}", 'a line has a "type" (a node) or an "edge", and this is neither'),
        ('{"type":"Note","edge":"Knows"}', 'a line has a "type" (a node) or an "edge", not both'),
        ('{"type":5}', '"type" is the name of a type, got 5'),
        ('{"type":"Persn"}', "there is no node type 'Persn': did you mean `Person`?"),
        (
            '{"type":"Knows"}',
            "there is no node type 'Knows': it is an edge type, which goes with \"edge\"",
        ),
        (
            '{"edge":"Note"}',
            "there is no edge type 'Note': it is a node type, which goes with \"type\"",
        ),
        ('{"type":"Note"', "not JSON: expecting ',' delimiter at character 15"),
        ('{"type":"Note"} 5', "a line is one value, but something follows it at character 17"),
        ('{"type":"Note","data":5}', "Note.data: expected an object, got 5"),
        ('{"type":"Note","text":"x"}', 'Note.text: properties belong into "data"'),
        (
            '{"type":"Note","daata":{}}',
            'Note.daata: there is no such field beside "data": did you mean `data`?',
        ),
        (
            '{"type":"Note","data":{"txt":"x"}}',
            "Note.txt: there is no such property: did you mean `text`?",
        ),
        ('{"type":"Note","data":{"text":"x","text":"x"}}', "Note.text: given twice"),
        ('{"type":"Note","data":{"id":5}}', "Note.id: expected String, got 5"),
        ('{"edge":"Knows","from":"a"}', "Knows.to: a value is required"),
        ('{"edge":"Knows","from":null,"to":"a"}', "Knows.from: a value is required"),
        ('{"edge":"Knows","from":5,"to":"a"}', "Knows.from: expected String, got 5"),
        (
            '{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}',
            'Knows.src: the ends of an edge are "from" and "to", beside "data" and not in it',
        ),
        (
            '{"edge":"Knows","from":"a","to":"b","src":"a"}',
            'Knows.src: there is no such field beside "data": did you mean `from`?',
        ),
        ('{"type":"Person","data":{"age":1.0}}', "Person.age: expected I32, got 1.0"),
        ('{"type":"Person","data":{"age":true}}', "Person.age: expected I32, got true"),
        ('{"type":"Person","data":{"age":-9e9}}', "Person.age: expected I32, got -9e9"),
        (
            '{"type":"Person","data":{"age":3000000000}}',
            "Person.age: 3000000000 is out of range of I32",
        ),
        ('{"type":"Person","data":{"rating":1e39}}', "Person.rating: 1e39 is out of range of F32"),
        ('{"type":"Person","data":{"rating":NaN}}', "Person.rating: NaN is not a finite number"),
        ('{"type":"Person","data":{"age":NaN}}', "Person.age: expected I32, got NaN"),
        (
            '{"type":"Person","data":{"born":"2023-02-29"}}',
            "Person.born: expected Date, got text '2023-02-29'",
        ),
        (
            '{"type":"Person","data":{"born":2147483648}}',
            "Person.born: 2147483648 days since 1970 are beyond the years 1 to 9999",
        ),
        (
            '{"type":"Person","data":{"seen":"2023-02-28"}}',
            "Person.seen: expected DateTime, got text '2023-02-28'",
        ),
        (
            '{"type":"Person","data":{"days":["x"]}}',
            "Person.days: in the list: expected Date, got text 'x'",
        ),
        ('{"type":"Person","data":{"days":0}}', "Person.days: expected [Date], got 0"),
        (
            '{"type":"Person","data":{"vector":[1]}}',
            "Person.vector: expected Vector(2), got a vector of 1",
        ),
        (
            '{"type":"Person","data":{"vector":[1,null]}}',
            "Person.vector: a vector has numbers only, got null",
        ),
        (
            '{"type":"Person","data":{"vector":[1,-1e39]}}',
            "Person.vector: -1e39 is out of range of F32",
        ),
        (
            '{"type":"Person","data":{"photo":"http://x"}}',
            "Person.photo: 'http://x' is no Blob: give its bytes as text, `base64:` followed by "
            "their encoding",
        ),
        (
            '{"edge":"Rated","from":"a","to":"b","data":{"stars":"x"}}',
            "Rated.stars of '[\"a\",\"b\"]': expected I32, got text 'x'",
        ),
    ],
)
def test_messages(line: str, message: str) -> None:
    found = _violation(line)
    assert (found.message, found.line, found.file) == (message, 1, "people.jsonl")


def test_all_that_is_wrong_with_a_line_is_told() -> None:
    read = Read(
        '{"edge":"Knows","from":7,"x":1,"x":2,"data":{"since":"no","id":"k","to":"b","y":3}}\n'
    )
    assert read.found == [
        (1, "field", "to"),
        (1, "field", "x"),
        (1, "field", "x"),
        (1, "field", "y"),
        (1, "required", "dst"),
        (1, "type", "since"),
        (1, "type", "src"),
    ]
    assert {item.id for item in read.out.items} == {"k"}


def test_a_line_with_faults_claims_its_id() -> None:
    read = Read(
        '{"type":"Person","data":{"name":"ada","age":"x"}}\n'
        '{"type":"Person","data":{"name":5}}\n'
        '{"type":"Person","data":{"name":"bo"}}\n'
        '{"type":"Note","data":{"id":"n","text":5}}\n'
        '{"type":"Note","data":{"text":5}}\n'
    )
    assert {item.entity.name: item.claimed for item in read.items} == {
        "Person": ("ada",),
        "Note": ("n",),
    }
    assert read.rows("Person") == [{"name": "bo"}]
    assert read.stats.rows == 1


@pytest.mark.parametrize("place", [0, 1234, 4999])
@pytest.mark.parametrize("style", [{}, {"sort_keys": True}], ids=["usual", "sorted"])
def test_one_bad_line_does_not_slow_down_the_others(
    place: int, style: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    row_wise: list[int] = []
    original = RowWiseDecoder.decode

    def count(self: RowWiseDecoder, lines: Iterable[tuple[int, bytes]]) -> Iterable[Decoded]:
        given = list(lines)
        row_wise.extend(number for number, _ in given)
        return original(self, given)

    monkeypatch.setattr(RowWiseDecoder, "decode", count)
    values = people(5000)
    values[place]["data"]["age"] = "x"
    read = Read(lines(values, **style), {"node:Person": frozenset({"age", "vector"})})
    assert read.found == [(place + 1, "type", "age")]
    (item,) = read.items
    assert item.lines.tolist() == [n for n in range(1, 5001) if n != place + 1]
    assert item.rows.column("age").to_pylist() == [n for n in range(5000) if n != place]
    assert item.claimed == (f"p{place}",)
    assert _absent(read, "Person", "vector") == item.lines.tolist()
    assert "age" not in item.absent
    assert len(row_wise) <= 256


def test_the_first_violations_are_kept_and_all_are_counted() -> None:
    bad = '{"type":"Note","data":{"text":5,"x":1}}\n{"edge":"Knows","from":5,"to":"b"}\n'
    read = Read(bad * 1000, block_bytes=500)
    assert (read.out.total, len(read.out.items)) == (3000, 1000)
    assert read.found == Read(bad * 334).found[:1000]
    assert read.stats.lines == 2000


def test_more_faults_than_can_be_kept_are_counted() -> None:
    data = {f"x{number:05}": 1 for number in range(5000)}
    read = Read(json.dumps({"type": "Note", "data": data}))
    assert (read.out.total, len(read.out.items)) == (5000, 1000)
    assert read.out.items[-1].properties == ("x00999",)
