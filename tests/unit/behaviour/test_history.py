"""Old states, branches, actors, conditions on the head, and other writers."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import Conflict, Forbidden, InvalidInput, NotFound, PreconditionFailed
from tests.behaviour import change, match

NAMES = "query q() { match { $p: Person } return { $p.name } }"
LONELY = "query q() { match { $p: Person not { $p knows $_ } } return { $p.name } }"


def names(rows: og.Rows) -> list[str]:
    return [row["p.name"] for row in rows]


def test_queries_at_old_commits(own_people: og.Graph) -> None:
    first = own_people.snapshot().commit
    change(own_people, 'insert Person { name: "Eve" }')
    second = own_people.snapshot().commit
    change(own_people, 'delete Person where name = "Ada"')
    third = own_people.snapshot().commit
    assert names(own_people.query(NAMES, at=first)) == ["Ada", "Bob", "Cid", "Dan"]
    assert names(own_people.query(NAMES, at=second)) == ["Ada", "Bob", "Cid", "Dan", "Eve"]
    assert names(own_people.query(NAMES, at=third)) == ["Bob", "Cid", "Dan", "Eve"]
    lonely = [names(own_people.query(LONELY, at=at)) for at in (first, second, third)]
    assert lonely == [["Dan"], ["Dan", "Eve"], ["Dan", "Eve"]]
    ages = "query q() { match { $a knows $b } return { count($b) as n } }"
    assert [own_people.query(ages, at=at)[0]["n"] for at in (first, third)] == [5, 2]


def test_what_is_not_there_cannot_be_read(own_people: og.Graph) -> None:
    with pytest.raises(NotFound):
        own_people.query(NAMES, at="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(InvalidInput):
        own_people.query(NAMES, at="' or 1=1")
    with pytest.raises(NotFound):
        own_people.query(NAMES, branch="nowhere")
    with pytest.raises(InvalidInput):
        own_people.query(NAMES, branch="../x")


def test_a_snapshot_stays_what_it_was(own_people: og.Graph) -> None:
    pinned = own_people.snapshot()
    rows = pinned.query(NAMES)
    change(own_people, 'delete Person where name != "Ada"')
    assert names(pinned.query(NAMES)) == ["Ada", "Bob", "Cid", "Dan"]
    assert names(rows) == ["Ada", "Bob", "Cid", "Dan"]
    assert pinned.counts["node:Person"] == 4
    assert names(own_people.query(NAMES)) == ["Ada"]


def test_branches_have_their_own_state(own_people: og.Graph) -> None:
    own_people.branches.create("agent/1")
    own_people.mutate('query q() { delete Person where name = "Ada" }', branch="agent/1")
    own_people.branches.create("agent/2", from_="agent/1")
    own_people.mutate('query q() { insert Person { name: "Eve" } }', branch="agent/2")
    change(own_people, 'insert Person { name: "Zoe" }')
    assert names(own_people.query(NAMES)) == ["Ada", "Bob", "Cid", "Dan", "Zoe"]
    assert names(own_people.query(NAMES, branch="agent/1")) == ["Bob", "Cid", "Dan"]
    assert names(own_people.query(NAMES, branch="agent/2")) == ["Bob", "Cid", "Dan", "Eve"]
    assert names(own_people.query(LONELY, branch="agent/2")) == ["Dan", "Eve"]
    assert own_people.branches.list() == ["agent/1", "agent/2", "main"]
    own_people.branches.delete("agent/2")
    with pytest.raises(NotFound):
        own_people.query(NAMES, branch="agent/2")


def test_a_branch_of_an_old_commit_and_a_name_used_again(own_people: og.Graph) -> None:
    first = own_people.snapshot().commit
    change(own_people, 'insert Person { name: "Eve" }')
    own_people.branches.create("b", at=first)
    assert names(own_people.query(NAMES, branch="b")) == ["Ada", "Bob", "Cid", "Dan"]
    own_people.mutate('query q() { delete Person where name != "Bob" }', branch="b")
    assert names(own_people.query(NAMES, branch="b")) == ["Bob"]
    own_people.branches.delete("b")
    own_people.branches.create("b")
    assert names(own_people.query(NAMES, branch="b")) == ["Ada", "Bob", "Cid", "Dan", "Eve"]


def test_commits_name_their_actor(own_people: og.Graph) -> None:
    done = own_people.mutate('query q() { insert Person { name: "Eve" } }', actor="me")
    assert done.commit is not None
    assert own_people.commits.show(done.commit.id).actor == "me"
    assert own_people.commits.list()[0] == done.commit
    with og.open(own_people.uri, actor="you") as other:
        change(other, 'insert Person { name: "Eva" }')
    own_people.refresh()
    assert own_people.commits.list()[0].actor == "you"


def test_if_commit_compares_with_the_head(own_people: og.Graph) -> None:
    head = own_people.snapshot().commit
    text = 'query q() { insert Person { name: "Eve" } }'
    assert own_people.mutate(text, if_commit=head).affected_nodes == 1
    with pytest.raises(PreconditionFailed):
        own_people.mutate(text, if_commit=head)
    with pytest.raises(PreconditionFailed):
        own_people.mutate('query q() { delete Person where name = "Eve" }', if_commit=head)
    assert match(own_people, "$p: Person", "count($p)") == [5]


def test_an_idempotency_key_makes_a_change_happen_once(own_people: og.Graph) -> None:
    text = 'query q() { insert Knows { from: "Dan", to: "Ada" } }'
    first = own_people.mutate(text, idempotency_key="k1")
    again = own_people.mutate(text, idempotency_key="k1")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.commit is not None
    assert first.commit is not None
    assert again.commit.id == first.commit.id
    assert match(own_people, '$p: Person { name: "Dan" } $p $k: knows $q', "count($k)") == [1]


def test_two_handles_take_turns(own_people: og.Graph) -> None:
    with og.open(own_people.uri) as other:
        assert names(other.query(NAMES)) == ["Ada", "Bob", "Cid", "Dan"]
        change(own_people, 'insert Person { name: "Eve" }')
        # An insert of a handle that has not looked again still works.
        assert change(other, 'insert Person { name: "Fay" }') == (1, 0)
        assert change(other, 'update Person set { age: 1 } where name = "Eve"') == (1, 0)
        own_people.refresh()
        assert match(own_people, "$p: Person $p.age = 1", "$p.name") == ["Eve"]
        assert names(own_people.query(NAMES))[-2:] == ["Eve", "Fay"]


def test_a_reader_never_writes(own_people: og.Graph) -> None:
    with og.open(own_people.uri, mode="r") as reader:
        assert names(reader.query(NAMES)) == ["Ada", "Bob", "Cid", "Dan"]
        with pytest.raises(Forbidden):
            change(reader, 'insert Person { name: "Eve" }')
        with pytest.raises(Forbidden):
            reader.ensure_indices()
        with pytest.raises(Forbidden):
            reader.branches.create("b")


def test_making_a_graph_twice_is_refused(own_people: og.Graph) -> None:
    with pytest.raises(Conflict):
        og.init(own_people.uri, "node A { n: I32 @key }")
    with pytest.raises(NotFound):
        og.open(own_people.uri + "-not")


def test_indexes_change_no_answer(own_people: og.Graph) -> None:
    before = names(own_people.query(LONELY))
    assert own_people.ensure_indices().commit is not None
    assert own_people.ensure_indices().commit is None
    change(own_people, 'insert Person { name: "Eve" }')
    assert names(own_people.query(LONELY)) == [*before, "Eve"]
    assert match(own_people, '$p: Person { name: "Eve" }', "$p.name") == ["Eve"]
    assert match(own_people, '$p: Person { name: "Ada" }', "$p.name") == ["Ada"]
