"""Wrong and hostile input: typed errors with a place, and no text that means more than itself."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.types import AccessChoice
from tests.behaviour import Make, ask, change, match

HOSTILE = [
    "'",
    "''",
    '"',
    "\\",
    "\\'",
    "' OR '1'='1",
    "x' OR 1=1 --",
    "'; DROP TABLE t; --",
    "%",
    "_",
    "*",
    "`",
    "$p",
    "${x}",
    "{}",
    "a\x00b",
    "\n\r\t",
    "\u2028",
    "é",
    "e\u0301",
    "😀",
    "\U0010ffff",
    "NULL",
    "true",
    "-1",
    "1e309",
    '["a"]',
    "../../etc/passwd",
    "a/b",
    " ",
    "",
    "x" * 10_000,
]

SCHEMA = """
node Person { name: String @key  city: String?  tags: [String]? }
node Pair { a: String  b: String  @key(a, b) }
node Note { text: String? }
edge Knows: Person -> Person { note: String? }
edge Rated: Person -> Pair { how: String  @key(src, dst, how) }
"""


@pytest.fixture(scope="module", params=["plain", "indexed"])
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph in which everything has a hostile name, given as parameters."""
    graph = og.init(tmp_path_factory.mktemp("hostile") / "g.omni", SCHEMA)
    for text in HOSTILE:
        done = change(
            graph,
            "insert Person { name: $t, city: $t, tags: [] } insert Pair { a: $t, b: $t } "
            "insert Note { text: $t } insert Knows { from: $t, to: $t, note: $t }"
            "update Person set { tags: $l } where name = $t",
            types="$t: String, $l: [String]",
            t=text,
            l=[text],
        )
        assert done == (3, 1), text
        if request.param == "indexed" and text == "%":
            graph.ensure_indices()
    return graph


def test_every_text_is_stored_as_it_is(hostile: og.Graph) -> None:
    assert sorted(match(hostile, "$p: Person", "$p.name")) == sorted(HOSTILE)
    assert match(hostile, "$p: Person $p.name != $p.city", "$p.name") == []


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("access", ["dense", "direct", "auto"])
def test_a_text_finds_itself_and_nothing_else(
    hostile: og.Graph, text: str, access: AccessChoice
) -> None:
    def found(pattern: str, returned: str = "$p.name") -> list[Any]:
        body = f"match {{ {pattern} }} return {{ {returned} }}"
        rows = hostile.query(
            f"query q($t: String, $l: [String]) {{ {body} }}",
            {"t": text, "l": [text]},
            access=access,
        )
        return [next(iter(row.values())) for row in rows]

    assert found("$p: Person { name: $t } $p.id in $l") == [text]
    assert found("$p: Person { id: $t } $p.name in $l") == [text]
    assert found("$p: Person { city: $t } $p.city in $l") == [text]
    assert found("$p: Person { tags: $t } $p.name in $l") == [text]
    assert found("$p: Person $p.name = $t $p knows $q $q.name in $l", "$q.name") == [text]
    assert found("$p: Person $p $k: knows $q $k.note = $t $k.from in $l", "$k.to") == [text]
    assert found("$x: Pair { a: $t, b: $t } $x.a in $l", "$x.b") == [text]
    assert found("$n: Note { text: $t } $n.text in $l", "$n.text") == [text]
    assert text in found("$p: Person $p.name starts_with $t $p.name contains $t $p.city in $l")
    assert found("$p: Person search($p.city, $t) $p.name in $l") in ([], [text])


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_a_text_as_a_literal(hostile: og.Graph, text: str) -> None:
    literal = Literal(LiteralKind.STRING, text)
    assert match(hostile, f"$p: Person {{ name: {literal} }}", "$p.name") == [text]
    assert match(hostile, f"$p: Person $p.city in [{literal}]", "$p.name") == [text]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_a_change_touches_what_it_names(make: Make, text: str) -> None:
    graph = make(SCHEMA)
    change(
        graph,
        'insert Person { name: $t } insert Person { name: "other" } insert Pair { a: $t, b: "o" } '
        'insert Pair { a: "other", b: "o" } insert Knows { from: $t, to: "other" } '
        'insert Knows { from: "other", to: "other" }',
        types="$t: String",
        t=text,
    )
    kinds = {"types": "$t: String", "t": text}
    assert change(graph, 'update Person set { city: "x" } where name = $t', **kinds) == (1, 0)
    assert change(graph, 'update Person set { city: $t } where city = "x"', **kinds) == (1, 0)
    assert change(graph, "update Knows set { note: $t } where from = $t", **kinds) == (0, 1)
    assert match(graph, "$p: Person $p.city is not null", "$p.city") == [text]
    assert change(graph, "delete Pair where a = $t", **kinds) == (1, 0)
    assert change(graph, "delete Person where name = $t and city = $t", **kinds) == (1, 1)
    assert match(graph, "$p: Person", "$p.name") == ["other"]
    assert match(graph, "$a $k: knows $b", "$a.name") == ["other"]


# -- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("match { $p: Persn } return { $p.name }", "T1"),
        ("match { $p: Person { nme: 1 } } return { $p.name }", "T2"),
        ("match { $p: Person $p knws $q } return { $p.name }", "T4"),
        ("match { $p: Person } return { $p.nme }", "T6"),
        ("match { $p: Person } return { $q }", "T6"),
        ('match { $p: Person $p.age > "x" } return { $p.name }', "T7"),
        ("match { $p: Person } return { sum($p.name) }", "T8"),
        ('insert Persn { name: "x" }', "T10"),
        ('insert Person { name: "a", nme: "x" }', "T11"),
        ("insert Person { age: 1 }", "T12"),
    ],
)
def test_mistakes_have_codes_and_places(people: og.Graph, body: str, code: str) -> None:
    run = people.mutate if body.startswith("insert") else people.query
    with pytest.raises(InvalidInput) as caught:
        run(f"query q() {{\n  {body}\n}}")
    (first, *_) = caught.value.diagnostics
    assert first["code"] == code
    assert first["line"] == 2


@pytest.mark.parametrize("text", ["", "query", "query q() {", "match { $p: Person }", "\x00", "🤯"])
def test_what_is_no_query_is_refused(people: og.Graph, text: str) -> None:
    with pytest.raises(InvalidInput):
        people.query(text)
    with pytest.raises(InvalidInput):
        people.mutate(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("String", 1),
        ("String", b"x"),
        ("String", "\ud800"),
        ("I32", "1"),
        ("I32", 2**31),
        ("I32", 1.0),
        ("I32", True),
        ("U32", -1),
        ("U64", 2**64),
        ("I64", "1e3"),
        ("F64", float("nan")),
        ("F64", float("inf")),
        ("F64", 10**400),
        ("F32", 1e39),
        ("Bool", 1),
        ("Date", "2024-02-30"),
        ("Date", "yesterday"),
        ("Date", 3),
        ("DateTime", "2024-13-01T00:00:00Z"),
        ("[String]", "a"),
        ("[String]", [1]),
        ("[String]", ["a", None]),
        ("Vector(2)", [1.0]),
        ("Vector(2)", [1.0, "x"]),
        ("Vector(2)", [1.0, float("nan")]),
        ("String", None),
    ],
)
def test_parameters_of_the_wrong_type(people: og.Graph, kind: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"\$v"):
        ask(people, "match { $p: Person } return { $v }", types=f"$v: {kind}", v=value)


def test_parameters_that_nobody_declared_or_gave(people: og.Graph) -> None:
    text = "match { $p: Person { name: $n } } return { $p.name }"
    with pytest.raises(InvalidInput, match=r"\$n"):
        ask(people, text, types="$n: String")
    with pytest.raises(InvalidInput, match=r"\$m"):
        ask(people, text, types="$n: String", n="x", m="y")


def test_large_values(own_people: og.Graph) -> None:
    long = "é" * 1_000_000
    change(
        own_people,
        "insert Person { name: $t, tags: $l }",
        types="$t: String, $l: [String]",
        t=long,
        l=["x"] * 100_000,
    )
    text = "match { $p: Person { name: $t } } return { $p }"
    ((found,),) = ask(own_people, text, types="$t: String", t=long)
    assert found["name"] == found["id"] == long
    assert len(found["tags"]) == 100_000


def test_other_arguments(people: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { $p.name } }"
    with pytest.raises(InvalidInput):
        people.query(text, access="fast")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        og.open(people.uri, mode="w")
    with pytest.raises(InvalidInput):
        og.init(people.uri + "2", "node Person {")
    with pytest.raises(InvalidInput):
        people.read_blob("Person", "Ada", "name")
    with pytest.raises(og.errors.GraphError):
        people.read_blob("Nobody", "Ada", "name")
