"""Finding entities and reading their properties."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

import omnigraph as og
from tests.behaviour import Make, ask, change, match


def test_by_key(people: og.Graph) -> None:
    assert match(people, '$p: Person { name: "Ada" }', "$p.age") == [36]
    text = "match { $p: Person { name: $n } } return { $p.age }"
    assert ask(people, text, types="$n: String", n="Bob") == [(25,)]
    missing = people.query(f"query q($n: String) {{ {text} }}", {"n": "Eve"})
    assert missing.columns == ("p.age",)
    assert list(missing) == []


def test_by_id(people: og.Graph) -> None:
    assert match(people, '$p: Person { id: "Ada" }', "$p.name") == ["Ada"]
    assert match(people, '$p: Person $p.id in ["Bob", "Eve", "Ada"]', "$p.name") == ["Ada", "Bob"]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$p.age < 36", ["Bob", "Cid"]),
        ("$p.age <= 36", ["Ada", "Bob", "Cid"]),
        ("$p.age >= 36", ["Ada"]),
        ("$p.age != 25", ["Ada"]),
        ("not ($p.age = 25)", ["Ada"]),
        ("$p.age = 25.0", ["Bob", "Cid"]),
        ("$p.age = 25.5", []),
        ("$p.age > 25.5", ["Ada"]),
        ("$p.age > -1", ["Ada", "Bob", "Cid"]),
        ("$p.age is null", ["Dan"]),
        ("$p.age is not null and $p.age != 36", ["Bob", "Cid"]),
        ("$p.age = 36 or $p.age is null", ["Ada", "Dan"]),
        ("not ($p.age = 36 or $p.age is null)", ["Bob", "Cid"]),
        ("$p.age in [36, 99]", ["Ada"]),
        ("$p.age not in [36, 99]", ["Bob", "Cid"]),
        ("$p.age in []", []),
        ('$p.name starts_with "A"', ["Ada"]),
        ('$p.name starts_with "a"', []),
        ('$p.name contains "d"', ["Ada", "Cid"]),
        ('$p.name contains "%"', []),
        ('$p.name contains "_"', []),
        ('$p.name contains ""', ["Ada", "Bob", "Cid", "Dan"]),
        ('"Ada and Dan" contains $p.name', ["Ada", "Dan"]),
        ("$p.name < $p.city", ["Ada", "Bob", "Cid"]),
        ('$p.tags contains "code"', ["Ada"]),
        ('not ($p.tags contains "code")', ["Bob"]),
        ('"math" in $p.tags', ["Ada"]),
        ("$p.tags is null", ["Cid", "Dan"]),
    ],
)
def test_conditions(people: og.Graph, condition: str, found: list[str]) -> None:
    assert match(people, f"$p: Person {condition}", "$p.name") == found


def test_membership_in_braces(people: og.Graph) -> None:
    assert match(people, '$p: Person { tags: "code" }', "$p.name") == ["Ada"]


def test_a_whole_entity_is_an_object(people: og.Graph) -> None:
    (ada,) = match(people, '$p: Person { name: "Ada" }', "$p")
    assert ada == {
        "id": "Ada",
        "name": "Ada",
        "age": 36,
        "city": "London",
        "tags": ["math", "code"],
    }
    (note,) = match(people, '$a: Person { name: "Cid" } $a $k: knows $b $k.note = "back"', "$k")
    assert {**note, "id": "?"} == {
        "id": "?",
        "from": "Cid",
        "to": "Ada",
        "since": None,
        "note": "back",
    }


def test_parameters_literals_and_the_moment_can_be_returned(people: og.Graph) -> None:
    returned = '$x, $y, 1 as one, "t" as t, true as b, now()'
    text = f'match {{ $p: Person {{ name: "Ada" }} }} return {{ {returned} }}'
    ((x, y, one, word, truth, moment),) = ask(
        people, text, types="$x: I64, $y: String?", x=2**53 + 1
    )
    assert (x, y, one, word, truth) == (2**53 + 1, None, 1, "t", True)
    assert isinstance(moment, datetime)
    assert moment.tzinfo is UTC


def test_unconnected_parts_are_multiplied_or_joined_by_a_condition(people: og.Graph) -> None:
    assert len(match(people, "$p: Person $c: Company", "$p.name, $c.name")) == 12
    joined = match(people, "$p: Person $c: Company $p.city = $c.name", "$p.name, $c.name")
    assert joined == [("Dan", "Acme")]


EVERYTHING = """
node Thing {
  key: I64 @key
  flag: Bool?
  small: I32?
  count: U32?
  huge: U64?
  single: F32?
  double: F64?
  day: Date?
  moment: DateTime?
  camelCase: String?
  days: [Date]?
  numbers: [F32]?
}
"""


@pytest.fixture
def things(make: Make) -> og.Graph:
    graph = make(EVERYTHING)
    change(
        graph,
        "insert Thing { key: 1, flag: true, small: -5, count: 4294967295, huge: $huge,"
        ' single: 0.1, double: 0.1, day: date("2024-02-29"),'
        ' moment: datetime("2024-02-29T12:30:00.250Z"), camelCase: "x",'
        ' days: [date("2024-01-01")], numbers: [0.1, 2.0] }'
        " insert Thing { key: 2 }",
        types="$huge: U64",
        huge=2**64 - 1,
    )
    return graph


def test_every_type_comes_back_as_it_went_in(things: og.Graph) -> None:
    (thing,) = match(things, "$t: Thing { key: 1 }", "$t")
    single = 0.10000000149011612
    assert thing == {
        "id": "1",
        "key": 1,
        "flag": True,
        "small": -5,
        "count": 2**32 - 1,
        "huge": 2**64 - 1,
        "single": single,
        "double": 0.1,
        "day": date(2024, 2, 29),
        "moment": datetime(2024, 2, 29, 12, 30, 0, 250_000, UTC),
        "camelCase": "x",
        "days": [date(2024, 1, 1)],
        "numbers": [single, 2.0],
    }
    (empty,) = match(things, "$t: Thing { key: 2 }", "$t")
    assert {name for name, value in empty.items() if value is not None} == {"id", "key"}


@pytest.mark.parametrize(
    "condition",
    [
        "$t.flag = true",
        "$t.flag > false",
        "$t.small = -5",
        "$t.huge = 18446744073709551615",
        "$t.huge > 9223372036854775807",
        "$t.huge > 18446744073709549568.0",
        "$t.huge < 18446744073709551615.0",
        "$t.count > $t.small",
        "$t.huge > $t.small",
        "$t.single = 0.1",
        "$t.double = 0.1",
        "$t.single > $t.double",
        'date("2024-02-29") = $t.day',
        '$t.day < date("2024-03-01")',
        '$t.moment > date("2024-02-29")',
        '$t.moment <= datetime("2024-02-29T13:30:00.250+01:00")',
        "$t.moment < now()",
        '$t.camelCase = "x"',
        '$t.days contains date("2024-01-01")',
        "$t.numbers contains 0.1",
        '$t.day in [date("2024-02-29")]',
    ],
)
def test_conditions_of_every_type(things: og.Graph, condition: str) -> None:
    assert match(things, f"$t: Thing {condition}", "$t.key") == [1]
    # The thing without values is neither in nor out.
    assert match(things, f"$t: Thing not ({condition})", "$t.key") == []


def test_parameters_of_every_type(things: og.Graph) -> None:
    pairs = {
        "flag": ("Bool", True),
        "small": ("I32", -5),
        "count": ("U32", 2**32 - 1),
        "huge": ("U64", str(2**64 - 1)),
        "single": ("F32", 0.1),
        "double": ("F64", 0.1),
        "day": ("Date", "2024-02-29"),
        "moment": ("DateTime", "2024-02-29T12:30:00.250Z"),
        "camelCase": ("String", "x"),
    }
    for name, (kind, value) in pairs.items():
        text = f"match {{ $t: Thing {{ {name}: $v }} }} return {{ $t.key }}"
        assert ask(things, text, types=f"$v: {kind}", v=value) == [(1,)], name
        assert ask(things, text, types=f"$v: {kind}?", v=None) == [], name
    listed = "match { $t: Thing $t.key in $keys } return { $t.key }"
    assert ask(things, listed, types="$keys: [I64]", keys=[2, 1, 1, 9]) == [(1,), (2,)]
    assert ask(things, listed, types="$keys: [I64]?") == []


def test_a_result_comes_in_many_forms(people: og.Graph) -> None:
    rows = people.query("query q() { match { $p: Person } return { $p.name, $p.age as age } }")
    assert rows.columns == ("p.name", "age")
    assert len(rows) == 4
    assert rows[0] == {"p.name": "Ada", "age": 36}
    assert rows[-1]["age"] is None
    assert [row["age"] for row in rows] == [36, 25, 25, None]
    table = rows.to_arrow()
    assert table.column_names == ["p.name", "age"]
    assert table.to_pylist() == rows.to_pylist()


def test_a_file_of_queries(people: og.Graph) -> None:
    text = """
    query one() { match { $p: Person } return { count($p) as n } }
    query two() { match { $c: Company } return { count($c) as n } }
    """
    assert people.query(text, name="two").to_pylist() == [{"n": 3}]
    with pytest.raises(og.errors.InvalidInput, match="one, two"):
        people.query(text)
    with pytest.raises(og.errors.InvalidInput):
        people.query(text, name="three")
    with pytest.raises(og.errors.InvalidInput):
        people.query('query add() { insert Company { name: "X" } }')
    with pytest.raises(og.errors.InvalidInput):
        people.mutate(text, name="one")
