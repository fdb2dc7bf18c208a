"""Insert, update, delete: what they touch, what they see, what they leave."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

import omnigraph as og
from tests.behaviour import Make, ask, change, match


def commits(graph: og.Graph) -> int:
    return len(graph.commits.list())


def test_insert_nodes_and_edges_in_one_commit(own_people: og.Graph) -> None:
    before = commits(own_people)
    done = change(
        own_people,
        'insert Person { name: "Eve", age: 1 } insert Company { name: "New" } '
        'insert WorksAt { from: "Eve", to: "New", role: "all" } '
        'insert Knows { from: "Dan", to: "Eve" }',
    )
    assert done == (2, 2)
    assert commits(own_people) == before + 1
    assert match(own_people, "$d: Person $d knows $e $e worksAt $c", "$d.name, $c.name")[-1] == (
        "Dan",
        "New",
    )


def test_inserting_an_existing_key_replaces_the_whole_entity(own_people: og.Graph) -> None:
    assert change(own_people, 'insert Person { name: "Ada", city: "Bern" }') == (1, 0)
    assert match(own_people, '$p: Person { name: "Ada" }', "$p.age, $p.city, $p.tags") == [
        (None, "Bern", None)
    ]
    # Its edges stay.
    assert match(own_people, '$p: Person { name: "Ada" } $p knows $f', "$f.name") == ["Bob", "Cid"]
    assert match(own_people, "$p: Person", "count($p)") == [4]


def test_without_a_key_every_insert_is_new(make: Make) -> None:
    graph = make("node Note { text: String? }  edge After: Note -> Note")
    assert change(graph, 'insert Note { text: "a" } insert Note { text: "a" }') == (2, 0)
    first, second = match(graph, "$n: Note", "$n.id")
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", first)
    link = "insert After { from: $a, to: $b }"
    for _ in range(2):
        assert change(graph, link, types="$a: String, $b: String", a=first, b=second) == (0, 1)
    assert match(graph, "$a $e: after $b", "count($e)") == [2]


def test_an_edge_with_a_key_is_replaced(make: Make) -> None:
    graph = make("""
      node P { name: String @key }
      edge Rated: P -> P { day: Date  stars: I32?  @key(src, dst, day) }
    """)
    change(graph, 'insert P { name: "a" } insert P { name: "b" }')
    rate = 'insert Rated { from: "a", to: "b", day: date("1970-01-11"), stars: $n }'
    assert change(graph, rate, types="$n: I32", n=1) == (0, 1)
    assert change(graph, rate, types="$n: I32", n=5) == (0, 1)
    other = rate.replace("1970-01-11", "1970-01-12")
    assert change(graph, other, types="$n: I32", n=2) == (0, 1)
    assert match(graph, "$a $r: rated $b", "$r.id, $r.stars") == [
        ('["a","b","10"]', 5),
        ('["a","b","11"]', 2),
    ]


def test_ids_of_keys(make: Make) -> None:
    graph = make("""
      node D { day: Date @key }
      node T { at: DateTime @key }
      node B { yes: Bool @key }
      node F { f: F32 @key }
      node C { b: String  a: U64  @key(b, a) }
    """)
    change(
        graph,
        'insert D { day: date("2024-02-29") } insert T { at: datetime("2024-02-29T00:00:00Z") } '
        "insert B { yes: false } insert F { f: 0.1 } insert F { f: -0.0 } "
        'insert C { b: "x,\\"y", a: 7 }',
    )
    found = {name: match(graph, f"$x: {name}", "$x.id") for name in "DTBFC"}
    assert found == {
        "D": ["19782"],
        "T": ["1709164800000"],
        "B": ["false"],
        "F": ["0", "0.1"],
        "C": ['["7","x,\\"y"]'],
    }
    # The zero that was there is the zero that is meant.
    assert change(graph, "insert F { f: 0.0 }") == (1, 0)
    assert match(graph, "$x: F", "count($x)") == [2]


def test_defaults_nulls_and_the_moment(make: Make) -> None:
    graph = make("""
      enum Level { low, high }
      node T { k: I32 @key  level: Level @default("low")  n: I64? @default(7)  at: DateTime? }
    """)
    change(graph, 'insert T { k: 1 } insert T { k: 2, n: null, level: "high", at: now() }')
    first, second = match(graph, "$t: T", "$t.level, $t.n, $t.at")
    assert first == ("low", 7, None)
    assert second[:2] == ("high", None)
    created = graph.commits.list()[0].created_at
    assert abs(second[2] - created).total_seconds() < 60
    assert second[2].tzinfo is UTC
    assert isinstance(second[2], datetime)


def test_update_by_a_condition(own_people: og.Graph) -> None:
    done = change(own_people, 'update Person set { city: "Oslo", age: null } where age = 25')
    assert done == (2, 0)
    assert match(own_people, "$p: Person", "$p.name, $p.age, $p.city, $p.tags") == [
        ("Ada", 36, "London", ["math", "code"]),
        ("Bob", None, "Oslo", []),
        ("Cid", None, "Oslo", None),
        ("Dan", None, "Acme", None),
    ]


@pytest.mark.parametrize(
    ("where", "touched"),
    [
        ("age != 25", 1),
        ("not (age = 25)", 1),
        ("age is null", 1),
        ("age is null or age > 30", 2),
        ('name in ["Ada", "Eve"]', 1),
        ('name not in ["Ada", "Eve"]', 3),
        ('city = "Rome" and age < 30', 2),
        ('id = "Ada"', 1),
        ("age > 99", 0),
        ('name = "\' or 1=1 --"', 0),
    ],
)
def test_what_a_condition_selects(own_people: og.Graph, where: str, touched: int) -> None:
    assert change(own_people, f'update Person set {{ city: "X" }} where {where}') == (touched, 0)
    assert len(match(own_people, '$p: Person { city: "X" }', "$p.name")) == touched


def test_what_a_condition_does_not_select_stays(own_people: og.Graph) -> None:
    assert change(own_people, "delete Person where not (age = 25)")[0] == 1
    assert change(own_people, "delete Person where age is null or age > 30")[0] == 1
    assert match(own_people, "$p: Person", "$p.name") == ["Bob", "Cid"]


def test_update_of_edges(own_people: og.Graph) -> None:
    text = 'update Knows set { note: "new" } where from = "Ada" and to = "Bob"'
    assert change(own_people, text) == (0, 2)
    assert match(own_people, '$a $k: knows $b $k.note = "new"', "$a.name, $b.name") == [
        ("Ada", "Bob"),
        ("Ada", "Bob"),
    ]


def test_setting_what_is_there_already_counts(own_people: og.Graph) -> None:
    before = commits(own_people)
    assert change(own_people, 'update Person set { age: 36 } where name = "Ada"') == (1, 0)
    assert commits(own_people) == before + 1


def test_nothing_matched_publishes_nothing(own_people: og.Graph) -> None:
    head = own_people.commits.list()[0].id
    for text in (
        'update Person set { age: 1 } where name = "Eve"',
        'delete Person where name = "Eve"',
        'delete Knows where from = "Eve"',
    ):
        done = own_people.mutate(f"query q() {{ {text} }}")
        assert (done.affected_nodes, done.affected_edges, done.commit) == (0, 0, None)
    assert own_people.commits.list()[0].id == head


def test_deleting_a_node_takes_its_edges_along(own_people: og.Graph) -> None:
    # Ada: three edges out, one in, one job. The company of the same id is not hers.
    assert change(own_people, 'delete Person where name = "Ada"') == (1, 5)
    assert match(own_people, "$a knows $b", "$a.name, $b.name") == [("Bob", "Cid"), ("Cid", "Cid")]
    assert match(own_people, "$p worksAt $c", "$p.name, $c.name") == [
        ("Bob", "Acme"),
        ("Cid", "Ada"),
    ]
    assert change(own_people, 'delete Company where name = "Ada"') == (1, 1)
    assert match(own_people, "$p worksAt $c", "$p.name") == ["Bob"]


def test_a_node_without_edges_leaves_the_edge_tables_alone(own_people: og.Graph) -> None:
    before = own_people.snapshot()._pinned.tables
    assert change(own_people, 'delete Person where name = "Dan"') == (1, 0)
    after = own_people.snapshot()._pinned.tables
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {"node:Person"}


def test_deleting_edges(own_people: og.Graph) -> None:
    assert change(own_people, 'delete Knows where from = "Ada" and to = "Bob"') == (0, 2)
    assert change(own_people, 'delete Knows where since = date("2022-06-30")') == (0, 1)
    assert match(own_people, "$a knows $b", "count($b)") == [3]


def test_overlapping_deletes_count_once(own_people: og.Graph) -> None:
    done = change(
        own_people,
        'delete Person where age = 25 delete Person where city = "Rome" '
        'delete Knows where from = "Bob" delete Person where age < 30 or city is null',
    )
    # Bob and Cid; four Knows and two WorksAt... of which Ada keeps her job.
    assert done == (2, 8)
    assert match(own_people, "$p: Person", "$p.name") == ["Ada", "Dan"]


def test_rows_with_nulls_survive_other_deletes(own_people: og.Graph) -> None:
    assert change(own_people, "delete Person where age = 25 delete Person where age > 30") == (3, 9)
    assert match(own_people, "$p: Person", "$p.name") == ["Dan"]


def test_statements_see_what_earlier_ones_did(own_people: og.Graph) -> None:
    done = change(
        own_people,
        'insert Person { name: "Eve", age: 25 } update Person set { city: "Here" } where age = 25 '
        'update Person set { age: 26 } where city = "Here" insert Knows { from: "Eve", to: "Eve" }',
    )
    assert done == (3, 1)
    assert match(own_people, '$p: Person { city: "Here" }', "$p.name, $p.age") == [
        ("Bob", 26),
        ("Cid", 26),
        ("Eve", 26),
    ]


def test_the_last_image_of_an_entity_counts(own_people: og.Graph) -> None:
    done = change(
        own_people,
        'insert Person { name: "Eve", age: 1 } update Person set { age: 2 } where name = "Eve" '
        'insert Person { name: "Eve", city: "X" }',
    )
    assert done == (1, 0)
    assert match(own_people, '$p: Person { name: "Eve" }', "$p.age, $p.city") == [(None, "X")]


def test_a_failing_statement_leaves_nothing(own_people: og.Graph) -> None:
    head = own_people.commits.list()[0].id
    with pytest.raises(og.errors.ConstraintViolated):
        change(own_people, 'insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Xi" }')
    assert own_people.commits.list()[0].id == head
    assert match(own_people, "$p: Person", "count($p)") == [4]
    assert change(own_people, 'insert Person { name: "Eve" }') == (1, 0)


def test_deleting_and_building_do_not_mix(own_people: og.Graph) -> None:
    with pytest.raises(og.errors.InvalidInput) as caught:
        change(own_people, 'delete Person where name = "Ada" insert Person { name: "Ada" }')
    assert [item["code"] for item in caught.value.diagnostics] == ["D2"]


def test_identity_cannot_be_updated(own_people: og.Graph) -> None:
    for text in (
        'update Person set { name: "X" } where name = "Ada"',
        'update Person set { id: "X" } where name = "Ada"',
        'update Knows set { from: "X" } where from = "Ada"',
    ):
        with pytest.raises(og.errors.InvalidInput):
            change(own_people, text)


def test_reading_after_many_changes(own_people: og.Graph) -> None:
    for number in range(5):
        change(own_people, f'insert Person {{ name: "p{number}", age: {number} }}')
        change(own_people, f'update Person set {{ age: 50 }} where name = "p{number}"')
        if number % 2:
            change(own_people, f'delete Person where name = "p{number}"')
    assert match(own_people, "$p: Person $p.age = 50", "$p.name") == ["p0", "p2", "p4"]
    assert match(own_people, "$p: Person $p.age < 50", "$p.name") == ["Ada", "Bob", "Cid"]
    assert match(own_people, "$p: Person", "count($p)") == [7]


def test_one_name_for_a_node_and_an_edge_type(make: Make) -> None:
    graph = make("node Tag { k: String @key }  edge Tag: Tag -> Tag { k: String? }")
    change(graph, 'insert Tag { k: "a" } insert Tag { k: "b" }')
    assert change(graph, 'insert Tag { from: "a", to: "b", k: "e" }') == (0, 1)
    assert change(graph, 'update Tag set { k: "f" } where from = "a"') == (0, 1)
    assert match(graph, "$x $t: tag $y", "$x.k, $t.k, $y.k") == [("a", "f", "b")]
    assert change(graph, 'delete Tag where k = "a"') == (1, 1)


def test_blobs(make: Make) -> None:
    graph = make("node P { name: String @key  age: I32?  photo: Blob? }")
    change(graph, 'insert P { name: "a", photo: "base64:AAEC" } insert P { name: "b" }')
    assert graph.read_blob("P", "a", "photo") == b"\x00\x01\x02"
    assert graph.read_blob("P", "a", "photo", offset=1, length=1) == b"\x01"
    assert graph.read_blob("P", "b", "photo") is None
    # An update of something else keeps it, also of those that have none.
    assert change(graph, 'update P set { age: 3 } where name != ""') == (2, 0)
    assert graph.read_blob("P", "a", "photo") == b"\x00\x01\x02"
    assert graph.read_blob("P", "b", "photo") is None
    change(graph, 'update P set { photo: $b } where name = "b"', types="$b: Blob", b="base64:/w==")
    assert graph.read_blob("P", "b", "photo") == b"\xff"
    assert graph.read_blob("P", "a", "photo") == b"\x00\x01\x02"
    assert match(graph, "$p: P", "$p") == [
        {"id": "a", "name": "a", "age": 3},
        {"id": "b", "name": "b", "age": 3},
    ]
    for bad in ("AAEC", "file:///etc/passwd", "base64:&"):
        with pytest.raises(og.errors.InvalidInput):
            change(graph, 'insert P { name: "c", photo: $b }', types="$b: Blob", b=bad)
    assert ask(graph, "match { $p: P } return { count($p) }") == [(2,)]
