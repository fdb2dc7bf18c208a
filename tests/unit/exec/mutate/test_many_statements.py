"""Many statements in one query: what each of them reads does not grow with the others."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.exec import evaluate
from omnigraph.exec.mutate import committed, type_changes
from omnigraph.exec.tuning import tuned
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from tests.graphs import Delta, make, rows, write
from tests.unit.exec.mutate.support import Lab

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person
edge Likes: Person -> Person { much: I32?  @key(src, dst) }
"""
PERSON, KNOWS, LIKES = "node:Person", "edge:Knows", "edge:Likes"
PEOPLE = 400


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    repo = make(Root.parse(str(tmp_path / "g")), SCHEMA)
    people = [{"id": f"p{n}", "name": f"p{n}", "age": n} for n in range(PEOPLE)]
    knows = [{"id": f"k{n}", "src": f"p{n}", "dst": f"p{n + 1}"} for n in range(PEOPLE - 1)]
    write(repo, {PERSON: Delta(insert=people), KNOWS: Delta(insert=knows)})
    return Lab(repo)


def updates(count: int) -> str:
    return "\n".join(
        f'update Person set {{ age: {n}, city: "c" }} where name = "p{n}"' for n in range(count)
    )


def deletes(count: int) -> str:
    return "\n".join(f'delete Person where name = "p{n}"' for n in range(0, 3 * count, 3))


def mixed(count: int) -> str:
    return "\n".join(
        f'insert Person {{ name: "new{n}" }}\nupdate Person set {{ age: 1 }} where name = "new{n}"'
        for n in range(count)
    )


@pytest.mark.parametrize("body", [updates, deletes, mixed])
def test_scans_do_not_grow_with_statements(lab: Lab, body: Any) -> None:
    scans = []
    for count in (20, 80):
        with telemetry.counting() as counts:
            lab.run(body(count))
        scans.append(counts.snapshot()["table.scan"])
    assert scans[1] <= scans[0] + 1


@pytest.mark.parametrize("body", [updates, mixed])
def test_rows_looked_at_grow_with_statements_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    looked = 0

    def holds(predicate: Any, column: Any, count: int, context: Any) -> pa.Array:
        nonlocal looked
        looked += count
        return evaluate.holds(predicate, column, count, context)

    monkeypatch.setattr(type_changes, "holds", holds)
    monkeypatch.setattr(committed, "holds", holds)
    lab.run(body(100))
    assert 100 <= looked <= 2 * 100


def test_later_statements_see_earlier_ones(lab: Lab) -> None:
    lab.run(
        """
        insert Person { name: "new", age: 1 }
        update Person set { city: "a" } where name = "new" and age = 1
        update Person set { age: 2 } where name = "new" and age = 9
        update Person set { age: 3 } where name = "new" and city = "a"
        update Person set { city: "b" } where name = "p1"
        update Person set { city: "c" } where age < 3
        update Person set { city: "d" } where name = "p2" and city = "c"
        insert Person { name: "p2", age: 77 }
        update Person set { city: "e" } where name = "p2" and age = 77
        insert Person { name: "p3" }
        update Person set { city: "f" } where name in ["p3", "p4", "nobody", "new"]
        update Person set { age: 5 } where city = "f"
        """
    )
    found = {row["id"]: (row["age"], row["city"]) for row in rows(lab.repo, PERSON).values()}
    assert found["new"] == (5, "f")
    assert (found["p0"], found["p1"]) == ((0, "c"), (1, "c"))
    assert (found["p2"], found["p3"], found["p4"]) == ((77, "e"), (5, "f"), (5, "f"))
    assert found["p5"] == (5, None)
    assert len(found) == PEOPLE + 1


def test_one_query_is_the_same_as_its_statements_one_by_one(lab: Lab, tmp_path: Path) -> None:
    other = make(Root.parse(str(tmp_path / "other")), SCHEMA)
    people = [{"id": f"p{n}", "name": f"p{n}", "age": n} for n in range(PEOPLE)]
    write(other, {PERSON: Delta(insert=people)})
    alone = Lab(other)
    statements = [
        f'update Person set {{ age: {n * 7 % 11} }} where name = "p{n * 5 % 23}" and age < {n % 30}'
        if n % 4
        else f'insert Person {{ name: "p{n % 31}", age: {n} }}'
        if n % 8
        else f'update Person set {{ city: "c{n}" }} where age = {n % 13}'
        for n in range(60)
    ]
    for statement in statements:
        alone.run(statement)
    lab.run("\n".join(statements))
    assert rows(lab.repo, PERSON) == rows(other, PERSON)


def test_edges_by_their_ends(lab: Lab) -> None:
    lab.run("\n".join(f'insert Likes {{ from: "p{n}", to: "p{n + 1}" }}' for n in range(20)))
    lab.run(
        "\n".join(
            f'update Likes set {{ much: {n} }} where from = "p{n}" and to = "p{n + 1}"'
            for n in range(20)
        )
    )
    assert {row["src"]: row["much"] for row in rows(lab.repo, LIKES).values()} == {
        f"p{n}": n for n in range(20)
    }


def test_deleting_one_by_one_takes_all_edges_along(lab: Lab) -> None:
    done = lab.run(deletes(50))
    assert (done.affected_nodes, done.affected_edges) == (50, 99)
    left = {row["id"] for row in rows(lab.repo, PERSON).values()}
    assert len(left) == PEOPLE - 50
    assert all({row["src"], row["dst"]} <= left for row in rows(lab.repo, KNOWS).values())


@pytest.mark.parametrize("count", [1, 40, 300])
def test_statements_about_long_lists(lab: Lab, count: int) -> None:
    names = ", ".join(f'"p{n}"' for n in range(count))
    done = lab.run(
        f"""
        update Person set {{ age: 1 }} where name in [{names}]
        update Person set {{ city: "a" }} where name in [{names}] and age = 1
        update Person set {{ city: "b" }} where name = "p0"
        update Person set {{ age: 2 }} where name in [{names}] and city = "a"
        """
    )
    assert done.affected_nodes == count
    found = {row["id"]: (row["age"], row["city"]) for row in rows(lab.repo, PERSON).values()}
    expected = {f"p{n}": (2, "a") for n in range(count)} | {"p0": (1, "b")}
    assert {name: found[name] for name in expected} == expected


@tuned(indexed_images_max=100)
def test_what_was_replaced_is_let_go() -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    kept = type_changes.ImageTable(schema)
    kept.assign(pa.table([["a", "b"], [0, 0]], schema=schema))
    for number in range(1_000):
        assert kept.index()
        kept.put(["a"], pa.table([["a"], [number]], schema=schema))
        assert sum(part.num_rows for part in kept._parts) <= 100 + 4 * 2
    assert kept.whole().to_pylist() == [{"id": "b", "n": 0}, {"id": "a", "n": 999}]
