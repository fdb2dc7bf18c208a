"""Inserts and updates: identity, upserts, reading one's own writes, one commit per query."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.errors import Code, ConstraintViolated, InvalidInput, LimitExceeded
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.runtime.ids import is_ulid
from omnigraph.types import BranchName
from tests.graphs import Delta, audit, write
from tests.unit.exec.mutate.support import Lab, counts, lab

PERSON, COMPANY, NOTE = "node:Person", "node:Company", "node:Note"
SPOT, KNOWS, RATES = "node:Spot", "edge:Knows", "edge:Rates"


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    return lab(tmp_path)


def test_an_insert_stores_every_kind_of_value(graph: Lab) -> None:
    done = graph.run(
        """insert Person { name: $n, age: $a, born: date("2000-02-29"), seen: now(),
                           score: 0.1, tags: ["x", "y"], role: "admin" }""",
        {"n": "Ada", "a": 36},
        params="$n: String, $a: I64",
        actor="me",
    )
    assert counts(done) == (1, 0)
    assert done.commit is not None
    assert done.commit.actor == "me"
    (row,) = graph.rows(PERSON).values()
    assert row["id"] == row["name"] == "Ada"
    assert (row["age"], row["email"], row["tags"], row["role"]) == (36, None, ["x", "y"], "admin")
    assert row["born"] == date(2000, 2, 29)
    assert row["score"] == pytest.approx(0.1)
    assert isinstance(row["seen"], datetime)
    assert row["seen"].tzinfo is not None
    assert row["seen"].astimezone(UTC).year >= 2024


def test_ids_come_from_keys_or_are_generated(graph: Lab) -> None:
    graph.run('insert Note { text: "a" } insert Note { text: "a" } insert Spot { x: 1, y: -2 }')
    assert all(is_ulid(each) for each in graph.rows(NOTE))
    assert len(graph.rows(NOTE)) == 2
    assert list(graph.rows(SPOT)) == ['["1","-2"]']


def test_a_keyed_insert_replaces_the_whole_entity(graph: Lab) -> None:
    graph.run('insert Person { name: "a", age: 1, email: "e" }')
    done = graph.run('insert Person { name: "a", role: "guest" }')
    assert counts(done) == (1, 0)
    (row,) = graph.rows(PERSON).values()
    assert (row["age"], row["email"], row["role"]) == (None, None, "guest")
    assert graph.repo.snapshot().pin(PERSON).row_count == 1


def test_edges_have_the_identity_of_their_key_or_none(graph: Lab) -> None:
    graph.run('insert Person { name: "a" } insert Company { name: "c" }')
    for _ in range(2):
        graph.run('insert Knows { from: "a", to: "a" }')
        graph.run('insert Rates { from: "a", to: "c", stars: 1 }')
    graph.run('insert Rates { from: "a", to: "c", stars: 5 }')
    assert graph.ends(KNOWS) == [("a", "a"), ("a", "a")]
    assert graph.column(RATES, "stars") == {'["a","c"]': 5}


def test_statements_see_the_ones_before(graph: Lab) -> None:
    graph.run('insert Person { name: "old", age: 1 }')
    before = graph.commits()
    done = graph.run(
        """insert Person { name: "new", age: 1 }
           update Person set { age: 2 } where age = 1
           insert Person { name: "late", age: 1 }
           update Person set { email: "e" } where age = 2 and name = "new"
           update Person set { age: 3 } where age = 1
           insert Knows { from: "new", to: "late" }"""
    )
    assert counts(done) == (3, 1)
    assert graph.commits() == before + 1
    assert graph.column(PERSON, "age") == {"old": 2, "new": 2, "late": 3}
    assert graph.column(PERSON, "email") == {"old": None, "new": "e", "late": None}


def test_an_image_hides_the_committed_entity(graph: Lab) -> None:
    """The predicate holds for what is committed and not for what the query made of it."""
    graph.run('insert Person { name: "a", age: 1 }')
    done = graph.run(
        'insert Person { name: "a", age: 2 } update Person set { email: "e" } where age = 1'
    )
    assert counts(done) == (1, 0)
    assert graph.column(PERSON, "email") == {"a": None}
    graph.run(
        'update Person set { age: 3 } where age = 2 insert Person { name: "a", role: "guest" }'
    )
    assert graph.rows(PERSON)["a"]["age"] is None
    assert graph.rows(PERSON)["a"]["role"] == "guest"
    audit(graph.repo)


def test_an_entity_that_is_touched_often_counts_once(graph: Lab) -> None:
    done = graph.run(
        """insert Person { name: "a" } insert Person { name: "a" }
           update Person set { age: 1 } where name = "a"
           update Person set { age: 1 } where age = 1"""
    )
    assert counts(done) == (1, 0)


WHERE = {
    'name = "a"': {"a"},
    'name != "a"': {"b", "c"},
    "age = 1": {"a"},
    "age != 1": {"b"},
    "age > 0": {"a", "b"},
    "age >= 2": {"b"},
    "not age = 1": {"b"},
    "age is null": {"c"},
    "age is not null": {"a", "b"},
    "age is null or age = 1": {"a", "c"},
    'not (age = 1 and name = "a")': {"b", "c"},
    "age in [1, 7]": {"a"},
    "age not in [1, 7]": {"b"},
    "age in [1, $none]": {"a"},
    "age not in [1, $none]": set(),
    "age in $ages": {"b"},
    "age > $none": set(),
    "age < 3000000000": {"a", "b"},
    "age = 1.5": set(),
    "age < 1.5": {"a"},
    'name in ["a", "c", "zz"]': {"a", "c"},
    'id = "b"': {"b"},
    'name = "a" and age = 2': set(),
    'email = "b@x"': {"b"},
    'born = date("2000-01-01")': {"a"},
    'seen < datetime("2000-01-01T00:00:00Z")': {"b"},
    "score = 0.1": {"c"},
    "tags is null": {"a", "b", "c"},
    'role = "admin"': {"a"},
}


@pytest.mark.parametrize("where", WHERE)
def test_an_update_takes_what_its_predicate_says(graph: Lab, where: str) -> None:
    graph.run(
        """insert Person { name: "a", age: 1, born: date("2000-01-01"), role: "admin" }
           insert Person { name: "b", age: 2, email: "b@x",
                           seen: datetime("1999-12-31T23:59:59.999Z") }
           insert Person { name: "c", score: 0.1 }"""
    )
    params, given = [], {}
    if "$none" in where:
        params.append("$none: I32?")
    if "$ages" in where:
        params.append("$ages: [I64]")
        given["ages"] = [2, 2**40]
    done = graph.run(
        f'update Person set {{ tags: ["hit"] }} where {where}', given, params=", ".join(params)
    )
    hit = {name for name, tags in graph.column(PERSON, "tags").items() if tags}
    assert hit == WHERE[where]
    assert counts(done) == (len(hit), 0)
    assert (done.commit is None) == (not hit)
    if hit:
        # The rest of the row stays.
        assert graph.column(PERSON, "age") == {"a": 1, "b": 2, "c": None}


def test_an_update_to_the_same_values_counts(graph: Lab) -> None:
    graph.run('insert Person { name: "a", age: 1 }')
    done = graph.run('update Person set { age: 1 } where name = "a"')
    assert counts(done) == (1, 0)
    assert done.commit is not None


def test_edges_are_updated_too(graph: Lab) -> None:
    graph.run('insert Person { name: "a" } insert Knows { from: "a", to: "a" }')
    done = graph.run('update Knows set { since: date("2020-01-01") } where from = "a"')
    assert counts(done) == (0, 1)
    assert list(graph.column(KNOWS, "since").values()) == [date(2020, 1, 1)]


def test_nothing_matched_publishes_nothing(graph: Lab) -> None:
    before = graph.repo.snapshot()
    done = graph.run("update Person set { age: 1 } where age = 2")
    assert (counts(done), done.commit) == ((0, 0), None)
    assert graph.repo.snapshot().head == before.head


def test_a_branch_is_changed_alone(graph: Lab) -> None:
    graph.run('insert Person { name: "a", age: 1 } insert Person { name: "b" }')
    dev = BranchName("dev")
    graph.repo.create_branch(dev)
    graph.run('update Person set { age: 9 } where name = "nobody"', branch=dev)
    assert graph.repo.snapshot(dev).pin(PERSON).table_branch is None
    graph.run('update Person set { age: 2 } where name = "a"', branch=dev)
    graph.run('insert Person { name: "b", age: 5 } insert Person { name: "c" }', branch=dev)
    graph.run('delete Person where name = "c"', branch=dev)
    assert {name: row["age"] for name, row in graph.rows(PERSON, dev).items()} == {"a": 2, "b": 5}
    assert graph.column(PERSON, "age") == {"a": 1, "b": None}
    audit(graph.repo)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("age", "I64", 2**31),
        ("age", "U32", 2**31),
        ("score", "F64", 1e300),
    ],
)
def test_a_value_that_is_too_wide_is_refused(
    graph: Lab, column: str, kind: str, value: float
) -> None:
    with pytest.raises(InvalidInput) as caught:
        graph.run(
            f'insert Person {{ name: "a", {column}: $v }}', {"v": value}, params=f"$v: {kind}"
        )
    assert caught.value.code is Code.PARAMS_INVALID
    assert caught.value.details["property"] == column
    assert graph.commits() == 1


def test_a_query_that_changes_too_much_names_the_bound(tmp_path: Path) -> None:
    graph = lab(tmp_path, limits=MutationLimits(rows=2))
    graph.run('insert Person { name: "a" } insert Person { name: "b" }')
    graph.run('insert Person { name: "c" }')
    for body in (
        "update Person set { age: 1 } where age is null",
        "delete Person where age is null",
        'insert Note { text: "1" } insert Note { text: "2" } insert Note { text: "3" }',
    ):
        with pytest.raises(LimitExceeded) as caught:
            graph.run(body)
        assert caught.value.details == {"bound": "mutation_rows", "limit": 2}
    assert graph.column(PERSON, "age") == {"a": None, "b": None, "c": None}


@pytest.mark.parametrize("indexed", [False, True])
def test_many_entities_at_once(graph: Lab, indexed: bool) -> None:
    """More than are picked out one by one, through every way of reading."""
    size = 10_000
    people = [{"id": f"p{n}", "name": f"p{n}", "age": n % 10, "score": n} for n in range(size)]
    write(graph.repo, {PERSON: Delta(insert=people)})
    if indexed:
        ensure_indices(graph.repo)
    done = graph.run('update Person set { role: "guest" } where age < 9')
    assert counts(done) == (size * 9 // 10, 0)
    names = [f"p{n}" for n in range(size) if n % 10]
    chosen = {"names": [*names, "nobody"]}
    done = graph.run(
        "update Person set { age: 100 } where name in $names", chosen, params="$names: [String]"
    )
    assert counts(done) == (len(names), 0)
    rows = graph.rows(PERSON)
    for n in range(size):
        row = rows[f"p{n}"]
        assert row["score"] == n
        assert row["age"] == (100 if n % 10 else 0)
        assert row["role"] == ("guest" if n % 10 < 9 else None)
    done = graph.run("delete Person where name in $names", chosen, params="$names: [String]")
    assert counts(done) == (len(names), 0)
    audit(graph.repo)


HOSTILE = [
    "'",
    "''",
    "a' OR '1'='1",
    "\\",
    "\\'",
    '"',
    "`",
    "%",
    "\n",
    "\x00",
    "é",
    "e\u0301",
    "😀",
    "",
]


def test_hostile_texts_are_only_texts(graph: Lab) -> None:
    """In a key, a value, an end and every kind of lookup."""
    one = "$t: String"
    for text in HOSTILE:
        graph.run("insert Person { name: $t, email: $t }", {"t": text}, params=one)
        graph.run("insert Knows { from: $t, to: $t }", {"t": text}, params=one)
    assert set(graph.rows(PERSON)) == set(HOSTILE)
    for number, text in enumerate(HOSTILE):
        for where in ("name = $t", "id = $t", "email = $t", "name in [$t]", "email in [$t]"):
            body = f"update Person set {{ age: {number} }} where {where}"
            assert counts(graph.run(body, {"t": text}, params=one)) == (1, 0), text
        taken = 'insert Person { name: "other", email: $t }'
        with pytest.raises(ConstraintViolated):
            graph.run(taken, {"t": text}, params=one)
        assert counts(graph.run("delete Knows where from = $t", {"t": text}, params=one)) == (0, 1)
        graph.run("insert Knows { from: $t, to: $t }", {"t": text}, params=one)
    assert graph.column(PERSON, "age") == {text: n for n, text in enumerate(HOSTILE)}
    for text in HOSTILE:
        assert counts(graph.run("delete Person where name = $t", {"t": text}, params=one)) == (1, 1)
    assert graph.rows(KNOWS) == {}
