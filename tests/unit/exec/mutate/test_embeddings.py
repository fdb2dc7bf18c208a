"""Vectors and their texts: whoever writes the text leaves the vector that belongs to it."""

from pathlib import Path

import pytest

from omnigraph.embed.missing import MissingVectors
from omnigraph.errors import Code, InvalidInput
from tests.unit.exec.mutate.support import Lab, lab

SCHEMA = """
node Doc {
    name: String @key
    page: I32?
    text: String?
    vec: Vector(2)? @embed(text)
}
node Strict { name: String @key  text: String?  vec: Vector(2) @embed(text) }
node Loose { text: String @default("none")  vec: Vector(2)? @embed(text) }
"""
DOC = "node:Doc"
ONE = (MissingVectors(table_key=DOC, property="vec", count=1),)


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    return lab(tmp_path, SCHEMA)


def vectors(graph: Lab) -> dict[str, list[float] | None]:
    return graph.column(DOC, "vec")


def test_without_a_provider_the_vector_is_null_and_that_is_told(graph: Lab) -> None:
    graph.run('insert Doc { name: "a", text: "four" } insert Doc { name: "b", text: "sixsix" }')
    graph.embedder.has_provider = False
    done = graph.run('update Doc set { text: "new" } where name = "a"')
    assert vectors(graph) == {"a": None, "b": [6.0, 7.0]}
    assert done.missing == ONE
    done = graph.run('insert Doc { name: "c", text: "x" } insert Doc { name: "d", page: 1 }')
    assert vectors(graph)["c"] is vectors(graph)["d"] is None
    assert done.missing == ONE
    assert graph.run("insert Loose { vec: [1.0, 2.0] }").missing == ()
    assert graph.run('insert Loose { text: "t" }').missing[0].table_key == "node:Loose"


def test_what_matches_nothing_needs_no_provider(graph: Lab) -> None:
    graph.embedder.has_provider = False
    done = graph.run('update Doc set { text: "new" } where name = "nobody"')
    assert (done.commit, done.missing) == (None, ())
    done = graph.run('update Strict set { text: "new" } where name = "nobody"')
    assert done.commit is None
    assert graph.embedder.asked == []


def test_nobody_is_asked_for_what_matches_nothing(graph: Lab) -> None:
    graph.run('update Doc set { text: "new" } where name = "nobody"')
    assert graph.embedder.asked == []


def test_a_vector_that_cannot_be_null_is_refused_with_what_to_do(graph: Lab) -> None:
    graph.run('insert Strict { name: "a", text: "four" }')
    graph.embedder.has_provider = False
    for body in (
        'insert Strict { name: "b", text: "x" }',
        'update Strict set { text: "x" } where name = "a"',
    ):
        with pytest.raises(InvalidInput) as caught:
            graph.run(body)
        assert caught.value.code is Code.SETTINGS_INVALID
        assert caught.value.details["variable"] == "OMNIGRAPH_EMBED_PROVIDER"
        assert "Strict.vec" in str(caught.value)
    graph.run('insert Strict { name: "b", text: "x", vec: [1.0, 2.0] }')
    graph.run('update Strict set { text: "four" } where name = "a"')
    assert graph.column("node:Strict", "vec") == {"a": [4.0, 5.0], "b": [1.0, 2.0]}


@pytest.mark.parametrize("has_provider", [True, False])
def test_the_same_text_keeps_its_vector(graph: Lab, has_provider: bool) -> None:
    graph.run(
        """insert Doc { name: "a", text: "four", vec: [9.0, 9.0] }
           insert Doc { name: "b", text: "other" } insert Doc { name: "c", text: "four" }"""
    )
    graph.run('update Doc set { vec: null } where name = "c"')
    graph.embedder.has_provider = has_provider
    done = graph.run('update Doc set { text: "four" } where name in ["a", "b", "c"]')
    computed = [4.0, 5.0] if has_provider else None
    assert vectors(graph) == {"a": [9.0, 9.0], "b": computed, "c": computed}
    assert sum(item.count for item in done.missing) == (0 if has_provider else 2)
    # An insert of a known entity replaces all of it, but not what follows from its text.
    done = graph.run('insert Doc { name: "a", text: "four", page: 2 }')
    assert vectors(graph)["a"] == [9.0, 9.0]
    assert done.missing == ()
    graph.run('insert Doc { name: "a", text: "sixsix" }')
    assert vectors(graph)["a"] == ([6.0, 7.0] if has_provider else None)


@pytest.mark.parametrize("has_provider", [True, False])
def test_a_given_vector_and_a_null_text_need_nobody(graph: Lab, has_provider: bool) -> None:
    graph.run('insert Doc { name: "a", text: "four" }')
    graph.embedder.asked.clear()
    graph.embedder.has_provider = has_provider
    runs = [
        'update Doc set { text: "new", vec: [1.0, 2.0] } where name = "a"',
        'update Doc set { vec: [3.0, 4.0] } where name = "a"',
        'update Doc set { page: 3 } where name = "a"',
    ]
    for body, expected in zip(runs, ([1.0, 2.0], [3.0, 4.0], [3.0, 4.0]), strict=True):
        assert graph.run(body).missing == ()
        assert vectors(graph) == {"a": expected}
    assert graph.run('update Doc set { text: null } where name = "a"').missing == ()
    assert vectors(graph) == {"a": None}
    assert graph.embedder.asked == []


def test_what_counts_is_how_a_query_ends(graph: Lab) -> None:
    graph.embedder.has_provider = False
    done = graph.run(
        """insert Doc { name: "a", text: "one" } insert Doc { name: "b", text: "one" }
           insert Doc { name: "c", text: "one" }
           update Doc set { text: "two" } where name = "a"
           update Doc set { vec: [1.0, 2.0] } where name = "b"
           update Doc set { text: null } where name = "c\""""
    )
    assert done.missing == ONE
    assert vectors(graph) == {"a": None, "b": [1.0, 2.0], "c": None}


def test_a_statement_sees_what_the_one_before_it_left(graph: Lab) -> None:
    graph.run(
        """insert Doc { name: "a", text: "one" }
           update Doc set { text: "fives" } where name = "a"
           insert Doc { name: "a", text: "fives", page: 1 }"""
    )
    assert vectors(graph) == {"a": [5.0, 6.0]}
    assert graph.embedder.asked == [(("one",), 2, None), (("fives",), 2, None)]


def test_a_repeated_call_tells_the_same(graph: Lab) -> None:
    graph.embedder.has_provider = False
    first = graph.run('insert Doc { name: "a", text: "one" }', idempotency_key="k")
    again = graph.run('insert Doc { name: "a", text: "one" }', idempotency_key="k")
    assert again.replayed
    assert again.missing == first.missing == ONE
