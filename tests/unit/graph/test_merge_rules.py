"""Merges in which the changes of two sides break a rule of the schema only together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key  email: String?  @unique(email) }
node Team { name: String @key }
edge Likes: Person -> Person { weight: I32? }
edge Knows: Person -> Person { @key(src, dst) }
edge In: Person -> Team @card(0..1)
"""
NAMES = ["Ada", "Bo", "Cy", "Di"]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.load(
            {
                "Person": [{"name": name, "email": f"{name}@x"} for name in NAMES],
                "Team": [{"name": "red"}, {"name": "blue"}],
                "Likes": [{"id": "k", "from": "Ada", "to": "Bo"}],
                "In": [{"id": "i", "from": "Ada", "to": "red"}],
            }
        )
        graph.branches.create("draft")
        yield graph


def change(graph: og.Graph, branch: str, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def move(graph: og.Graph, branch: str, edge: str, **values: Any) -> None:
    names = {"from": "from_", "to": "to"}
    row = {name: values[key] for name, key in names.items()}
    graph.load({edge: [{"id": values["id"], **row}]}, mode="merge", branch=branch)


def ends(graph: og.Graph, edge: str = "likes", branch: str = "main") -> list[tuple[str, str]]:
    """The ends of all edges; an edge without one of them is found by its number."""
    text = f"query q() {{ match {{ $a $k: {edge} $b }} return {{ $k }} }}"
    found = [row["k"] for row in graph.query(text, branch=branch)]
    name = edge[0].upper() + edge[1:]
    assert len(found) == graph.snapshot(branch).counts[f"edge:{name}"], "an end is missing"
    return sorted((row["from"], row["to"]) for row in found)


def people(graph: og.Graph, branch: str = "main") -> dict[str, str | None]:
    text = "query q() { match { $p: Person } return { $p.name as n, $p.email as e } }"
    return {row["n"]: row["e"] for row in graph.query(text, branch=branch)}


def kinds(graph: og.Graph, source: str, into: str) -> list[tuple[str, str | None]]:
    found = graph.branches.merge(source, into=into, dry_run=True)
    return [(item.kind.value, item.id) for item in found.conflicts]


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_an_edge_was_moved_to_a_node_that_the_other_side_deleted(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    move(graph, "draft", "Likes", id="k", from_="Ada", to="Cy")
    change(graph, "main", 'delete Person where name = "Cy"')
    assert kinds(graph, source, into) == [("orphan_edge", "k")]
    with pytest.raises(og.errors.Conflict) as caught:
        graph.branches.merge(source, into=into)
    conflict: Any = caught.value.conflicts[0]
    images = [conflict[name] and conflict[name]["to"] for name in ("base", "ours", "theirs")]
    moved = "theirs" if source == "draft" else "ours"
    assert images == [
        "Bo",
        "Bo" if moved == "theirs" else "Cy",
        "Cy" if moved == "theirs" else "Bo",
    ]
    graph.branches.merge(source, into=into, resolve=side)
    stays = side == moved
    assert ends(graph, branch=into) == [("Ada", "Cy" if stays else "Bo")]
    assert ("Cy" in people(graph, into)) == stays


def test_an_edge_that_goes_back_may_lose_its_other_end(graph: og.Graph) -> None:
    move(graph, "draft", "Likes", id="k", from_="Ada", to="Cy")
    change(graph, "draft", 'delete Person where name = "Bo"')
    change(graph, "main", 'delete Person where name = "Cy"')
    assert kinds(graph, "draft", "main") == [("orphan_edge", "k")]
    graph.branches.create("copy")
    graph.branches.merge("draft", into="copy", resolve="ours")
    assert ends(graph, branch="copy") == [("Ada", "Bo")]
    graph.branches.merge("draft", resolve="theirs")
    assert ends(graph) == [("Ada", "Cy")]


def test_an_edge_was_moved_while_the_other_side_changed_it(graph: og.Graph) -> None:
    move(graph, "draft", "Likes", id="k", from_="Ada", to="Cy")
    graph.load({"Likes": [{"id": "k", "from": "Ada", "to": "Bo", "weight": 3}]}, mode="merge")
    change(graph, "main", 'delete Person where name = "Cy"')
    assert kinds(graph, "draft", "main") == kinds(graph, "main", "draft") == [("orphan_edge", "k")]
    graph.branches.merge("draft", resolve="ours")
    assert ends(graph) == [("Ada", "Bo")]


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_edges_that_were_moved_count_for_a_cardinality(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    move(graph, "draft", "In", id="i", from_="Bo", to="red")
    change(graph, "main", 'insert In { from: "Bo", to: "blue" }')
    assert kinds(graph, source, into) == [("cardinality_violation", "Bo")]
    graph.branches.merge(source, into=into, resolve=side)
    is_moved = (side == "theirs") == (source == "draft")
    wanted = [("Bo", "red")] if is_moved else [("Ada", "red"), ("Bo", "blue")]
    assert ends(graph, "in", into) == wanted


def test_a_node_that_stays_for_an_edge_keeps_its_values_to_itself(graph: og.Graph) -> None:
    change(graph, "draft", 'delete Person where name = "Cy"')
    change(graph, "draft", 'update Person set { email: "Cy@x" } where name = "Di"')
    change(graph, "main", 'insert Knows { from: "Ada", to: "Cy" }')
    assert kinds(graph, "draft", "main") == [("orphan_edge", '["Ada","Cy"]')]
    graph.branches.merge("draft", resolve="ours")
    assert people(graph)["Cy"] == "Cy@x"
    assert people(graph)["Di"] == "Di@x"


def test_a_value_that_goes_back_meets_whoever_took_it(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { email: "new" } where name = "Ada"')
    change(graph, "draft", 'update Person set { email: "Ada@x" } where name = "Bo"')
    change(graph, "main", 'update Person set { email: "new" } where name = "Cy"')
    graph.branches.merge("draft", resolve="ours")
    found = list(people(graph).values())
    assert len(found) == len(set(found))


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_side_settles_who_has_a_value_for_both_of_them(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    """Both have a value of their own on either side, and one of the four values is wanted twice."""
    change(graph, "draft", 'update Person set { email: "new" } where name = "Ada"')
    change(graph, "main", 'update Person set { email: "new" } where name = "Bo"')
    ((kind, _),) = kinds(graph, source, into)
    assert kind == "unique_violation"
    chosen = into if side == "ours" else source
    expected = people(graph, chosen)
    graph.branches.merge(source, into=into, resolve=side)
    assert people(graph, into) == expected


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_side_settles_a_row_of_collisions(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    """What goes back because of one collision has a value that the next one has taken."""
    for name, value in (("Ada", "new"), ("Bo", "Ada@x"), ("Cy", "Bo@x")):
        text = f'update Person set {{ email: "{value}" }} where name = "{name}"'
        change(graph, "draft", text)
    change(graph, "main", 'update Person set { email: "new" } where name = "Di"')
    expected = people(graph, into if side == "ours" else source)
    graph.branches.merge(source, into=into, resolve=side)
    assert people(graph, into) == expected


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_what_an_open_conflict_decides_is_no_conflict_yet(
    graph: og.Graph, source: str, into: str
) -> None:
    """A value and an edge that are in dispute may or may not be in the way of others."""
    graph.load({"Person": [{"name": "Eve"}]}, branch="draft")
    change(graph, "draft", 'update Person set { email: "one" } where name = "Ada"')
    change(graph, "main", 'update Person set { email: "two" } where name = "Ada"')
    change(graph, "draft", 'update Person set { email: "two" } where name = "Eve"')
    move(graph, "draft", "In", id="i", from_="Bo", to="red")
    move(graph, "main", "In", id="i", from_="Cy", to="red")
    change(graph, "draft", 'insert In { from: "Cy", to: "blue" }')
    found = [("divergent_update", "Ada"), ("divergent_update", "i")]
    assert kinds(graph, source, into) == found
    settled = graph.branches.merge(source, into=into, resolve="ours").settled
    names = [(item.kind.value, item.id) for item, _ in settled]
    expected = [("cardinality_violation", "Cy"), ("unique_violation", "Eve")]
    assert sorted(set(names) - set(found)) == (expected if into == "main" else [])


@pytest.fixture
def staffed(tmp_path: Path) -> Iterator[og.Graph]:
    """A graph in which whoever is in a team is in two; a person without a team is no violation."""
    schema = SCHEMA.replace("@card(0..1)", "@card(2..3)")
    with og.init(str(tmp_path / "staffed.omni"), schema=schema) as graph:
        teams = [{"name": name} for name in ("red", "blue", "green")]
        graph.load({"Person": [{"name": name} for name in NAMES], "Team": teams})
        graph.branches.create("draft")
        yield graph


@pytest.mark.parametrize("side", [None, "ours", "theirs"])
def test_a_node_without_edges_on_both_sides_breaks_no_minimum(staffed: og.Graph, side: Any) -> None:
    for branch in ("main", "draft"):
        value = "same" if side is None else branch
        change(staffed, branch, f'update Person set {{ email: "{value}" }} where name = "Ada"')
    rows = [{"from": "Bo", "to": team} for team in ("red", "blue")]
    staffed.load({"In": rows}, branch="draft")
    staffed.branches.merge("draft", resolve=side)
    expected = {None: "same", "ours": "main", "theirs": "draft"}[side]
    assert people(staffed)["Ada"] == expected


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
@pytest.mark.parametrize("teams_are", ["ours", "theirs"])
def test_a_side_without_edges_of_a_node_is_taken_as_it_is(
    staffed: og.Graph, source: str, into: str, teams_are: Any
) -> None:
    """One side puts Bo into two teams, the other one deletes both of them."""
    with_edges = into if teams_are == "ours" else source
    without = source if teams_are == "ours" else into
    rows = [{"from": "Bo", "to": team} for team in ("red", "blue")]
    staffed.load({"In": rows}, branch=with_edges)
    for team in ("red", "blue"):
        change(staffed, without, f'delete Team where name = "{team}"')
    assert [kind for kind, _ in kinds(staffed, source, into)] == ["orphan_edge"] * 2
    staffed.branches.create("copy", into)
    staffed.branches.merge(source, into=into, resolve=teams_are)
    assert ends(staffed, "in", into) == [("Bo", "blue"), ("Bo", "red")]
    other = "theirs" if teams_are == "ours" else "ours"
    staffed.branches.merge(source, into="copy", resolve=other)
    assert ends(staffed, "in", "copy") == []


@pytest.mark.parametrize(
    ("source", "into", "side"), [("draft", "main", "ours"), ("main", "draft", "theirs")]
)
def test_an_edge_that_goes_back_needs_the_end_that_it_had(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    """One side moved it to where there is no room for it, and deleted its source."""
    move(graph, "draft", "In", id="i", from_="Bo", to="red")
    change(graph, "draft", 'delete Person where name = "Ada"')
    change(graph, "main", 'insert In { from: "Bo", to: "blue" }')
    assert kinds(graph, source, into) == [("cardinality_violation", "Bo")]
    graph.branches.merge(source, into=into, resolve=side)
    assert ends(graph, "in", into) == [("Ada", "red"), ("Bo", "blue")]


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_node_that_comes_back_for_an_edge_has_as_many_as_it_needs(
    staffed: og.Graph, source: str, into: str, is_kept: bool
) -> None:
    """One side puts Bo into a third team, the other one deletes him and his first two teams."""
    first = [{"from": "Bo", "to": team} for team in ("red", "blue")]
    staffed.load({"In": first})
    staffed.branches.merge("main", into="draft")
    change(staffed, source, 'insert In { from: "Bo", to: "green" }')
    staffed.mutate(
        """query q() {
          delete Person where name = "Bo"
          delete Team where name = "red"
          delete Team where name = "blue"
        }""",
        branch=into,
    )
    staffed.branches.merge(source, into=into, resolve="theirs" if is_kept else "ours")
    expected = [("Bo", team) for team in ("blue", "green", "red")] if is_kept else []
    assert ends(staffed, "in", into) == expected


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
@pytest.mark.parametrize("is_moved_twice", [False, True])
def test_an_edge_in_dispute_may_have_lost_its_end(
    graph: og.Graph, source: str, into: str, is_moved_twice: bool
) -> None:
    """It has if its ends are not in dispute themselves."""
    for branch, weight in (("main", 1), ("draft", 2)):
        rows = [{"id": "k", "from": "Ada", "to": "Bo", "weight": weight}]
        graph.load({"Likes": rows}, mode="merge", branch=branch)
    move(graph, "draft", "Likes", id="k", from_="Ada", to="Cy")
    change(graph, "main", 'delete Person where name = "Cy"')
    if is_moved_twice:
        move(graph, "main", "Likes", id="k", from_="Ada", to="Di")
    orphans = [] if is_moved_twice else [("orphan_edge", "k")]
    assert kinds(graph, source, into) == [("divergent_update", "k"), *orphans]


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_node_of_one_side_goes_whose_only_edges_go(
    tmp_path: Path, source: str, into: str, side: Any
) -> None:
    """Its edges lead to a team that does not come, since its colour is taken."""
    schema = """
    node Person { name: String @key }
    node Team { name: String @key  colour: String?  @unique(colour) }
    edge In: Person -> Team @card(1..)
    edge Likes: Person -> Person
    """
    with og.init(str(tmp_path / "bare.omni"), schema=schema) as graph:
        graph.load({"Person": [{"name": "Ada"}]})
        graph.branches.create("draft")
        for branch, name in (("main", "Bo"), ("draft", "Cy")):
            team = {"name": f"of {name}", "colour": "red"}
            rows = {"Person": [{"name": name}], "Team": [team]}
            edges = {"In": [{"from": name, "to": team["name"]}]}
            likes = {"Likes": [{"from": "Ada", "to": name}]}
            graph.load(rows | edges | likes, branch=branch)
        chosen = "Bo" if (into == "main") == (side == "ours") else "Cy"
        graph.branches.merge(source, into=into, resolve=side)
        assert graph.snapshot(into).counts["node:Person"] == 2
        assert ends(graph, "in", into) == [(chosen, f"of {chosen}")]
        assert ends(graph, "likes", into) == [("Ada", chosen)]


@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_an_edge_that_stays_leaves_the_minimum_where_it_was_to_go(
    tmp_path: Path, source: str, into: str
) -> None:
    """It was to replace an edge which the same side deleted."""
    schema = SCHEMA.replace("@card(0..1)", "@card(1..2)")
    with og.init(str(tmp_path / "moved.omni"), schema=schema) as graph:
        people = [{"name": name} for name in NAMES]
        edges = [("i", "Ada", "red"), ("j", "Ada", "blue"), ("k", "Cy", "red")]
        rows = [{"id": name, "from": one, "to": other} for name, one, other in edges]
        teams = [{"name": name} for name in ("red", "blue")]
        graph.load({"Person": people, "Team": teams, "In": rows})
        graph.branches.create("draft")
        moved = [{**rows[0], "from": "Cy"}, rows[1]]
        graph.load({"In": moved}, mode="overwrite", branch=source)
        move(graph, into, "In", id="i", from_="Bo", to="red")
        graph.branches.merge(source, into=into, resolve="ours")
        expected = [("Ada", "blue"), ("Bo", "red"), ("Cy", "red")]
        assert ends(graph, "in", into) == expected


@pytest.mark.parametrize("choice", ["theirs", "base", "value"])
def test_an_entity_that_breaks_a_new_rule_gets_what_was_chosen(tmp_path: Path, choice: Any) -> None:
    """Only our side has changed it, and their side has the rule."""
    schema = "node Item { name: String @key  size: I32?  code: String? }"
    rules = schema.replace("}", "@range(size, 0..3) @unique(code) }")
    with og.init(str(tmp_path / "rules.omni"), schema=schema) as graph:
        graph.load({"Item": [{"name": "a", "size": 1, "code": "x"}, {"name": "b"}]})
        graph.branches.create("draft")
        graph.schema.apply(rules, branch="draft")
        rows = [{"name": "a", "size": 9}, {"name": "b", "code": "x"}]
        graph.load({"Item": rows}, mode="merge")
        found = graph.branches.merge("draft", dry_run=True).conflicts
        assert [(item.kind.value, item.id) for item in found] == [
            ("value_constraint_violation", "a"),
            ("unique_violation", "b"),
        ]
        states = [getattr(found[0], side)["size"] for side in ("base", "ours", "theirs")]
        assert states == [1, 9, 1]
        with pytest.raises(og.errors.Conflict, match="with the choice 'ours', too"):
            graph.branches.merge("draft", resolve="ours")
        file = tmp_path / "choices.jsonl"
        left = graph.branches.merge("draft", resolve="ours", dry_run=True)
        assert (left.write_resolutions(file), left.settled) == (2, ())
        assert len(file.read_text().splitlines()) == 2

        def settle(conflict: og.MergeConflict) -> Any:
            values = {"size": 2, "code": "y"}
            given = {name: values[name] for name in conflict.properties}
            return given if choice == "value" else choice

        graph.branches.merge("draft", resolve=settle)
        shown = "return { $i.size as s, $i.code as c } order { $i.name }"
        text = f"query q() {{ match {{ $i: Item }} {shown} }}"
        now = [(row["s"], row["c"]) for row in graph.query(text)]
        assert now == ([(2, "x"), (None, "y")] if choice == "value" else [(1, "x"), (None, None)])
