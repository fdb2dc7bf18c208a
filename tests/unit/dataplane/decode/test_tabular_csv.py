"""CSV: cells of every type, line numbers, and everything that can be wrong with a file."""

import datetime as dt
import gzip
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from omnigraph.dataplane.decode.dispatch import decode
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.source.model import FileSplit
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.source.split import split
from omnigraph.rules.violation import Violations
from tests.unit.dataplane.decoding import CATALOG, Read, read


def csv(folder: Path, text: str | bytes, name: str = "Cell.csv", **options: Any) -> Read:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, folder, **options)


def words(result: Read) -> list[tuple[int | None, str]]:
    return [(item.line, item.message) for item in result.violations]


# -- cells -----------------------------------------------------------------------------------------


def test_every_type(tmp_path: Path) -> None:
    result = csv(
        tmp_path,
        "name,flag,small,large,count,huge,single,double,day,moment,colour,vector,data,words,"
        "integers,floats,days\n"
        "a,true,-2147483648,9223372036854775807,4294967295,18446744073709551615,1.5,-2.5e3,"
        '2024-02-29,2024-02-29T12:30:15.123Z,red,"[1, 2.5, 3e0]",base64:aGk=,"[""x"", """"]",'
        '"[1,-9223372036854775808]",[0.5],"[""1970-01-01"", 1]"\n'
        "b,,,,,,,,,,,,,,,,\n",
    )
    assert result.violations == []
    assert result.rows["Cell"][0] == {
        "id": None,
        "name": "a",
        "flag": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "count": 2**32 - 1,
        "huge": 2**64 - 1,
        "single": 1.5,
        "double": -2500.0,
        "day": dt.date(2024, 2, 29),
        "moment": dt.datetime(2024, 2, 29, 12, 30, 15, 123_000, tzinfo=dt.UTC),
        "colour": "red",
        "vector": [1.0, 2.5, 3.0],
        "data": b"hi",
        "words": ["x", ""],
        "integers": [1, -(2**63)],
        "floats": [0.5],
        "days": [dt.date(1970, 1, 1), dt.date(1970, 1, 2)],
    }
    nulls = {key: value for key, value in result.rows["Cell"][1].items() if key != "name"}
    assert set(nulls.values()) == {None}


def test_null_is_empty_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('id,text\n1,\n2,""\n3," "\n4,null\n5,NA\n')
    result = read({"node:Note": tmp_path / "x.csv"}, tmp_path)
    assert result.values("text", "Note") == [None, "", " ", "null", "NA"]
    assert result.values("id", "Note") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("column", "good", "values"),
    [
        ("small", ["0", "-5", "007", "-0"], [0, -5, 7, 0]),
        ("double", ["1", "-1.5", "1e3", "0.1"], [1.0, -1.5, 1000.0, 0.1]),
        ("single", ["0.1", "16777217"], [np.float32(0.1).item(), 2.0**24]),
        ("flag", ["true", "False", "TRUE"], [True, False, True]),
        ("day", ["1970-01-02", "1", "-1"], [1, 1, -1]),
        ("moment", ["1970-01-01T00:00:01Z", "1000", "1970-01-01 00:00:01"], [1, 1, 1]),
    ],
)
def test_spellings(tmp_path: Path, column: str, good: list[str], values: list[Any]) -> None:
    rows = "".join(f"n{row},{text}\n" for row, text in enumerate(good))
    result = csv(tmp_path, f"name,{column}\n{rows}")
    assert result.violations == []
    found = result.values(column)
    if column == "day":
        found = [(day - dt.date(1970, 1, 1)).days for day in found]
    elif column == "moment":
        found = [int(moment.timestamp()) for moment in found]
    assert found == values


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("small", ["x", "1.0", "1e3", " 1", "+1", "0x10", "1_000", "2147483648", '""', "true"]),
        ("huge", ["-1", "18446744073709551616"]),
        ("double", ["x", "nan", "inf", "-Infinity", "1e999", " 1", "1,5".replace(",", ";"), ".5"]),
        ("single", ["1e39", "NaN"]),
        ("flag", ["1", "0", "yes", "t", "truee"]),
        ("day", ["29.2.2024", "2024-2-9", "2024-02-30", "1.5", "2024-02-29T00:00:00Z"]),
        ("moment", ["noon", "2024-02-29", "1.5"]),
        ("data", ["hi", "base64:?"]),
        ("vector", ["1", "[1;2;3]", "x", "[]"]),
        ("words", ["a", "[1]", "{}", "[a]"]),
    ],
)
def test_spellings_that_do_not_fit(tmp_path: Path, column: str, bad: list[str]) -> None:
    rows = "".join(f"n{row},{text}\n" for row, text in enumerate(bad))
    result = csv(tmp_path, f"name,{column}\n{rows}good,\n")
    rules = {rule for rule, _, _ in result.found}
    assert rules <= {"type", "vector_length"}
    expected = list(range(2, len(bad) + 2))
    assert [(line, name) for _, line, name in result.found] == [(n, column) for n in expected]
    assert result.values("name") == ["good"]
    assert result.claimed["Cell"] == [f"n{row}" for row in range(len(bad))]


def test_what_is_said_of_a_cell(tmp_path: Path) -> None:
    result = csv(tmp_path, 'name,small,vector\na,x,\nb,99999999999,\nc,,"[1,"\nd,,"[1,2]"\n')
    assert words(result) == [
        (2, "Cell.small of 'a': expected I32, got text 'x'"),
        (3, "Cell.small of 'b': 99999999999 is out of range of I32"),
        (
            4,
            "Cell.vector of 'c': expected Vector(3) as JSON, got text that is not JSON: expecting"
            " value at character 4",
        ),
        (5, "Cell.vector of 'd': expected Vector(3), got a vector of 2"),
    ]
    assert [item.value for item in result.violations] == ["x", 99_999_999_999, "[1,", 2]


def test_edges(tmp_path: Path) -> None:
    result = csv(tmp_path, "from,to,weight\na,b,1\nb,c,\n", "Link.csv")
    assert result.rows["Link"] == [
        {"id": None, "src": "a", "dst": "b", "weight": 1.0},
        {"id": None, "src": "b", "dst": "c", "weight": None},
    ]
    numbers = csv(tmp_path, "src,dst\n7,n1\n", "Next.csv")
    assert numbers.values("src", "Next") == ["7"]


def test_what_pandas_writes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ['q"uo,te', "two\nlines", "c"], "flag": [True, False, None]})
    frame.to_csv(tmp_path / "Cell.csv", index=False)
    result = read(tmp_path / "Cell.csv", tmp_path)
    assert result.violations == []
    assert result.values("name") == ['q"uo,te', "two\nlines", "c"]
    assert result.values("flag") == [True, False, None]
    assert result.lines["Cell"] == [2, 3, 4]


# -- files -----------------------------------------------------------------------------------------


def test_tabs(tmp_path: Path) -> None:
    result = csv(tmp_path, "name\twords\na,b\t[]\n", "Cell.tsv")
    assert result.values("name") == ["a,b"]
    assert result.values("words") == [[]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_and_marks(tmp_path: Path, end: str, start: str) -> None:
    result = csv(tmp_path, start + end.join(["name,small", "a,1", "b,x", ""]))
    assert result.values("name") == ["a"]
    assert result.found == [("type", 3, "small")]


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    assert csv(tmp_path, "name,small\na,1\nb,2").values("small") == [1, 2]


@pytest.mark.parametrize("text", ["name,small\n", "name,small", "\ufeffname,small", '"name"'])
def test_a_header_alone(tmp_path: Path, text: str) -> None:
    result = csv(tmp_path, text)
    assert result.violations == []
    assert result.rows["Cell"] == []
    assert result.stats.lines == 1


def test_a_wrong_header_alone(tmp_path: Path) -> None:
    assert csv(tmp_path, "name,smal").found == [("field", None, "smal")]


@pytest.mark.parametrize("text", ["", "\n", "\r\n\n", "\ufeff"])
def test_no_header(tmp_path: Path, text: str) -> None:
    result = csv(tmp_path, text)
    assert words(result)[0] == (1, "there is no header")
    assert {rule for rule, _, _ in result.found} == {"syntax"}


def test_a_header_that_is_not_text(tmp_path: Path) -> None:
    for text in (b"na\xffme\na\n", b"na\xffme"):
        assert words(csv(tmp_path, text)) == [(1, "the header is not UTF-8")]


def test_cells_that_are_not_text(tmp_path: Path) -> None:
    result = csv(tmp_path, b"name,small\na,1\n\xff,2\nc,\xfe\nd,x\n")
    assert words(result) == [
        (3, "Cell.name: the text is not UTF-8"),
        (4, "Cell.small of 'c': the text is not UTF-8"),
        (5, "Cell.small of 'd': expected I32, got text 'x'"),
    ]
    assert result.values("name") == ["a"]


def test_lines_without_values_are_skipped_and_counted(tmp_path: Path) -> None:
    result = csv(tmp_path, "name,small\n\na,1\n\n\nb,x\n,\n\n")
    assert result.lines["Cell"] == [3]
    assert result.found == [("type", 6, "small")]
    assert result.stats.lines == 8


def test_ragged_rows(tmp_path: Path) -> None:
    result = csv(tmp_path, "name,small\na,1\nb\nc,3,4\nd,4\ne,x\nf,1,2\n")
    assert words(result) == [
        (3, "expected 2 values, got 1"),
        (4, "expected 2 values, got 3"),
        (6, "Cell.small of 'e': expected I32, got text 'x'"),
        (7, "expected 2 values, got 3"),
    ]
    assert [item.rule.value for item in result.violations].count("syntax") == 3
    assert result.violations[1].value == "c,3,4"
    assert result.lines["Cell"] == [2, 5]
    assert result.stats.lines == 7


def test_line_numbers_beyond_a_block(tmp_path: Path) -> None:
    count = 20_000
    ragged = {7, 5_000, 19_999}
    bad = {12, 15_000}
    rows = (
        "x" if number in ragged else f"n{number},{'?' if number in bad else 1}"
        for number in range(2, count + 2)
    )
    lines = ["name,small", *rows]
    result = csv(tmp_path, "\n".join(lines), line_bytes_max=1_000)
    assert {line for rule, line, _ in result.found if rule == "syntax"} == ragged
    assert {line for rule, line, _ in result.found if rule == "type"} == bad
    good = [n for n in range(2, count + 2) if n not in ragged | bad]
    assert result.lines["Cell"] == good
    assert result.values("name") == [f"n{n}" for n in good]


def test_a_quote_that_is_not_closed(tmp_path: Path) -> None:
    result = csv(tmp_path, 'name,small\na,1\n"b,2\nc,3\n')
    assert result.found == [("syntax", 3, "")] * 2
    assert "not closed" in words(result)[0][1]
    assert csv(tmp_path, 'name\n5" pipe\n').found == [("syntax", 2, "")]
    assert csv(tmp_path, 'name\n"5"" pipe"\n').values("name") == ['5" pipe']


def test_a_row_that_is_too_long(tmp_path: Path) -> None:
    result = csv(tmp_path, f"name\na\n{'b' * 5_000}\nc\n", line_bytes_max=1_000)
    assert words(result)[-1][1] == "a row is longer than 1000 bytes"
    assert result.found[-1][0] == "syntax"
    fits = csv(tmp_path, f"name\n{'b' * 950}\n" * 3, line_bytes_max=1_000)
    assert [len(name) for name in fits.values("name")] == [950, 4, 950, 4, 950]


def test_rows_that_are_longer_than_a_block(tmp_path: Path) -> None:
    cells = ["a", "b" * (3 << 20), "c\n" * (1 << 20), '"\n' * (1 << 19), "e"]
    text = "".join('"' + cell.replace('"', '""') + '"\n' for cell in cells)
    result = csv(tmp_path, "name\n" + text * 2)
    assert result.violations == []
    assert result.values("name") == cells * 2
    assert result.lines["Cell"] == list(range(2, 12))


def test_reading_can_be_given_up(tmp_path: Path) -> None:
    (tmp_path / "Cell.csv").write_text("name\n" + "".join(f"n{n}\n" for n in range(1_000_000)))
    with resolve(tmp_path / "Cell.csv", CATALOG) as inputs:
        (part,) = split(inputs.inputs, bytes_per_split=1 << 30, spool_to="unused")
        assert isinstance(part, FileSplit)
        found = decode(part, DecodeSpec(catalog=CATALOG), Violations(), DecodeStats())
        assert isinstance(found, Generator)
        first = next(found)
        found.close()
    assert first.rows.column("name")[0].as_py() == "n0"


def test_a_packed_file(tmp_path: Path) -> None:
    text = "name,small\n" + "".join(f"n{n},{n}\n" for n in range(10_000))
    data = gzip.compress(text.encode())
    assert csv(tmp_path, data, "Cell.csv.gz").values("small") == list(range(10_000))


def test_a_packed_file_that_is_cut_off(tmp_path: Path) -> None:
    text = "name,small\n" + "".join(f"n{n},{n}\n" for n in range(10_000))
    data = gzip.compress(text.encode())
    result = csv(tmp_path, data[: len(data) // 2], "Cell.csv.gz")
    read_rows = len(result.rows["Cell"])
    assert 0 < read_rows < 10_000
    assert result.found == [("syntax", read_rows + 2, "")]
    assert "Truncated" in result.violations[0].message
