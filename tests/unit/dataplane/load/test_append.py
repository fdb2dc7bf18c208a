"""Appending: every entity is new, and everything that is wrong is told, with its place."""

import base64
from pathlib import Path

import pytest

from omnigraph.errors import Conflict, ConstraintViolated
from omnigraph.runtime.ids import is_ulid
from tests.graphs import audit, chain
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    NOTE,
    PERSON,
    RATES,
    WAYS,
    WORKS,
    Lab,
    Line,
    company,
    edge,
    lab_at,
    note,
    person,
    table_of,
)


def test_all_types_in_one_commit(lab: Lab) -> None:
    done = lab.load(
        [
            edge("Knows", "Ada", "Bo", since="2020-01-01"),
            person("Ada", age=36, bio="base64:" + base64.b64encode(b"\0x").decode()),
            person("Bo", role="admin"),
            company("Acme"),
            note("hi", id="n-1"),
            note("ho"),
            edge("Rates", "Ada", "Acme", stars=5),
            edge("WorksAt", "Bo", "Acme"),
        ]
    )
    assert done.rows == 8
    assert {key: (c.inserted, c.updated, c.deleted) for key, c in done.counts.items()} == {
        PERSON: (2, 0, 0),
        COMPANY: (1, 0, 0),
        NOTE: (2, 0, 0),
        KNOWS: (1, 0, 0),
        RATES: (1, 0, 0),
        WORKS: (1, 0, 0),
    }
    assert (done.commit.kind, done.replayed, done.branch_created) == ("load", False, False)
    people = lab.rows(PERSON)
    assert set(people) == {"Ada", "Bo"}
    assert (people["Ada"]["bio"], people["Ada"]["role"]) == (b"\0x", "guest")
    assert people["Bo"]["role"] == "admin"
    assert sorted(lab.rows(RATES)) == ['["Ada","Acme"]']
    notes = lab.rows(NOTE)
    assert notes["n-1"]["stars"] == 3
    (made,) = set(notes) - {"n-1"}
    assert is_ulid(made)
    assert lab.edges(KNOWS) == [("Ada", "Bo")]
    assert len(chain(lab.repo)) == 2
    audit(lab.repo)


def test_an_empty_load_is_one_commit_that_moves_no_table(lab: Lab) -> None:
    before = lab.versions()
    done = lab.load([])
    assert (done.counts, done.rows) == ({}, 0)
    assert lab.repo.snapshot().head == done.commit.id
    assert lab.versions() == before


def test_only_tables_with_rows_move(lab: Lab) -> None:
    before = lab.versions()
    lab.load([company("Acme")])
    moved = {key for key, version in lab.versions().items() if version != before[key]}
    assert moved == {COMPANY}


def test_committed_ids_are_taken(lab: Lab) -> None:
    lab.load([person("Ada", age=1), note("a", id="n"), edge("Knows", "Ada", "Ada", id="k")])
    lines = [person("Bo"), person("Ada"), note("b", id="n"), edge("Knows", "Bo", "Ada", id="k")]
    assert lab.refused(lines) == [
        ("key", "Ada", ("name",), 2),
        ("key", "n", ("id",), 3),
        ("key", "k", ("id",), 4),
    ]
    assert lab.rows(PERSON)["Ada"]["age"] == 1
    lab.load([person("Bo")])


def test_an_id_occurs_once_in_the_input(lab: Lab) -> None:
    lines = [
        person("Ada"),
        note("a", id="n"),
        person("Ada", age=2),
        person("Ada", age=3),
        note("b", id="n"),
        edge("Rates", "Ada", "Acme", stars=1),
        company("Acme"),
        edge("Rates", "Ada", "Acme", stars=2),
    ]
    for way in WAYS:
        found = lab.refused(lines, **way)
        assert found == [
            ("key", "Ada", ("name",), 3),
            ("key", "Ada", ("name",), 4),
            ("key", "n", ("id",), 5),
            ("key", '["Ada","Acme"]', ("src", "dst"), 8),
        ]


def test_an_explicit_id_must_be_what_the_key_says(lab: Lab) -> None:
    lab.load([person("Ada", id="Ada")])
    assert lab.refused([person("Bo", id="Bob"), person("Cy", id="Cy")]) == [
        ("key", "Bo", ("id",), 1)
    ]


def test_edges_need_their_ends(lab: Lab) -> None:
    lab.load([person("Ada"), company("Acme")])
    lines = [
        edge("Knows", "Ada", "Nobody"),
        edge("Knows", "Nobody", "Bo", id="k-7"),
        edge("WorksAt", "Ada", "Ada"),
        edge("WorksAt", "Bo", "Acme"),
        person("Bo"),
    ]
    found = lab.violations(lines)
    assert [(v["rule"], v["id"], v["properties"], v["line"], v["message"]) for v in found] == [
        ("endpoint", None, ["dst"], 1, "dst 'Nobody' not found in Person"),
        ("endpoint", "k-7", ["src"], 2, "src 'Nobody' not found in Person"),
        ("endpoint", None, ["dst"], 3, "dst 'Ada' not found in Company"),
    ]


def test_broken_lines_claim_their_ids(lab: Lab) -> None:
    # The second line is told once; the edges to its entity are not to blame.
    lines: list[Line | str] = [
        edge("Knows", "Ada", "Bo"),
        '{"type": "Person", "data": {"name": "Ada", "age": "old"}}',
        person("Bo", age=200),
    ]
    assert lab.refused(lines) == [
        ("type", "Ada", ("age",), 2),
        ("range", "Bo", ("age",), 3),
    ]


def test_unique_values_in_the_input_and_against_committed_rows(lab: Lab) -> None:
    lab.load([person("Ada", email="a@x", hall="h", seat=1), note("t", tag="z", id="n")])
    lines = [
        person("Bo", email="b@x"),
        person("Cy", email="a@x"),
        person("Di", email="b@x"),
        person("Ed", hall="h", seat=1),
        person("Fi", hall="h", seat=2),
        person("Gu", hall="h", seat=None),
        note("a", tag="z"),
        note("b", tag="y"),
        note("c", tag="y"),
    ]
    for way in WAYS:
        found = lab.violations(lines, **way)
        assert [(v["id"], v["properties"], v["line"], v["message"]) for v in found] == [
            (
                "Cy",
                ["email"],
                2,
                "@unique violation on Person.email: value 'a@x' held by 'Ada' and 'Cy'",
            ),
            (
                "Di",
                ["email"],
                3,
                "@unique violation on Person.email: value 'b@x' held by 'Bo' and 'Di'",
            ),
            (
                "Ed",
                ["hall", "seat"],
                4,
                "@unique violation on Person.(hall, seat): value '(h, 1)' held by 'Ada' and 'Ed'",
            ),
            (
                None,
                ["tag"],
                7,
                "@unique violation on Note.tag: value 'z' held by 'n' and a new entity",
            ),
            (
                None,
                ["tag"],
                9,
                "@unique violation on Note.tag: value 'y' held by a new entity and a new entity",
            ),
        ]


def test_cardinality_counts_committed_edges(lab: Lab) -> None:
    lab.load([person("Ada"), person("Bo"), company("Acme"), edge("WorksAt", "Ada", "Acme")])
    lab.load([edge("WorksAt", "Ada", "Acme")])
    lines = [
        edge("WorksAt", "Bo", "Acme"),
        edge("WorksAt", "Ada", "Acme"),
        edge("WorksAt", "Nobody", "Acme"),
        edge("WorksAt", "Ada", "Acme"),
    ]
    for way in WAYS:
        # A source that does not exist is not counted, and the first line is to blame.
        assert lab.refused(lines, **way) == [
            ("cardinality", "Ada", ("src",), 2),
            ("endpoint", None, ("src",), 3),
        ]


def test_row_rules(lab: Lab) -> None:
    lines = [
        person("Ada", age=151),
        person("Bo", role="boss"),
        {"type": "Person", "data": {"age": 3}},
        note(),
        person("Cy", nope=1),
    ]
    assert lab.refused(lines) == [
        ("range", "Ada", ("age",), 1),
        ("enum", "Bo", ("role",), 2),
        ("required", None, ("name",), 3),
        ("required", None, ("text",), 4),
        ("field", "Cy", ("nope",), 5),
    ]


def test_columns_come_like_lines(lab: Lab) -> None:
    people = table_of("node", "Person", [{"name": "Ada", "age": 1}, {"name": "Bo", "age": 2}])
    knows = table_of("edge", "Knows", [{"from": "Ada", "to": "Bo"}, {"from": "Bo", "to": "Ada"}])
    done = lab.run(lab.request(people, knows))
    assert {key: c.inserted for key, c in done.counts.items()} == {PERSON: 2, KNOWS: 2}
    assert lab.rows(PERSON)["Bo"]["role"] == "guest"
    bad = table_of("edge", "Knows", [{"from": "Ada", "to": "Bo"}, {"from": "Bo", "to": "X"}])
    found = lab.violations_of(lab.request(bad))
    assert [(v["file"], v["line"], v["rule"]) for v in found] == [("Knows", 2, "endpoint")]


def test_violations_are_counted_beyond_the_bound(lab: Lab) -> None:
    lines = [person(f"p{number:03d}", age=200) for number in range(50)]
    for way in WAYS:
        with pytest.raises(ConstraintViolated) as caught:
            lab.load(lines, violations_max=5, **way)
        assert caught.value.details["total"] == 50
        assert [v["line"] for v in caught.value.violations] == [1, 2, 3, 4, 5]
        lab.check_clean()


def test_files_are_told_apart_and_come_in_order(lab: Lab) -> None:
    second = lab.file([person("Ada"), person("Bo"), person("Cy")], "a.jsonl")
    first = lab.file([person("Cy"), person("Di"), person("Ada"), person("Di")], "b.jsonl")
    for way in WAYS:
        runner = way.get("runner")
        request = lab.request(first, second, **{k: v for k, v in way.items() if k != "runner"})
        found = lab.violations_of(request, runner)
        assert [(v["id"], v["file"], v["line"]) for v in found] == [
            ("Di", "b.jsonl", 4),
            ("Ada", "a.jsonl", 1),
            ("Cy", "a.jsonl", 3),
        ]


def test_a_schema_that_has_changed_is_a_conflict(lab: Lab, tmp_path: object) -> None:
    request = lab.request(lab.file([person("Ada")]))
    other = lab.catalog.__class__(nodes=lab.catalog.nodes[:1], edges=())
    changed = request.__class__(
        **{name: getattr(request, name) for name in request.__slots__} | {"catalog": other}
    )
    with pytest.raises(Conflict):
        lab.run(changed)


def test_properties_may_be_called_anything(tmp_path: Path) -> None:
    lab = lab_at(
        tmp_path,
        "node N { key: String @key  line: I32? @unique  label: String? }\n"
        "edge E: N -> N { line: I32?  key: String? }",
    )
    lab.load([{"type": "N", "data": {"key": name, "line": n}} for n, name in enumerate("abc")])
    rows = [{"type": "N", "data": {"key": "a", "line": 2}}, edge("E", "a", "b", line=1, key="k")]
    assert lab.refused(rows, "merge") == [("unique", "a", ("line",), 1)]
    rows.append({"type": "N", "data": {"key": "c", "line": 0}})
    lab.load(rows, "merge")
    assert {name: row["line"] for name, row in lab.rows("node:N").items()} == {
        "a": 2,
        "b": 1,
        "c": 0,
    }
