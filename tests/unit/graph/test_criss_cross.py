"""Merges with two merge bases, of branches that were merged into each other at the same time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = "node Note { title: String @key  text: String?  place: I32? }"
TITLES = ["a", "b", "c", "d"]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.load({"Note": [{"title": title, "text": "first"} for title in TITLES]})
        graph.branches.create("draft")
        yield graph


def change(graph: og.Graph, branch: str, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def edit(graph: og.Graph, branch: str, title: str, text: str) -> None:
    change(graph, branch, f'update Note set {{ text: "{text}" }} where title = "{title}"')


def cross(graph: og.Graph, **terms: Any) -> None:
    """Merge each of the two branches into the other one, as it was before."""
    graph.branches.create("main-before", "main")
    graph.branches.merge("draft", **terms)
    graph.branches.merge("main-before", into="draft", **terms)


def texts(graph: og.Graph, branch: str = "main") -> dict[str, str | None]:
    rows = graph.query("query q() { match { $n: Note } return { $n } }", branch=branch)
    return {row["n"]["title"]: row["n"]["text"] for row in rows}


@pytest.mark.parametrize("first", ["main", "draft"])
def test_a_conflict_shows_the_rows_of_the_latest_base(graph: og.Graph, first: str) -> None:
    other = "draft" if first == "main" else "main"
    for branch, titles in ((first, TITLES), (other, TITLES[::-1])):
        for title in titles:
            edit(graph, branch, title, f"{title} of {branch}")
        change(graph, branch, f'insert Note {{ title: "new of {branch}" }}')
    cross(graph, resolve="ours")
    graph.optimize(branch="draft")
    found = graph.branches.merge("draft", dry_run=True)
    assert [item.id for item in found.conflicts] == TITLES
    for item in found.conflicts:
        assert (item.ours or {})["text"] == f"{item.id} of main"
        assert (item.theirs or {})["text"] == f"{item.id} of draft"
        assert (item.base or {})["text"] == f"{item.id} of {other}"
    graph.branches.merge("draft", resolve=lambda _: "base")
    assert {texts(graph)[title] for title in TITLES} == {f"{title} of {other}" for title in TITLES}


@pytest.mark.parametrize("first", ["main", "draft"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_what_one_side_changes_again_is_taken(
    graph: og.Graph, first: str, source: str, into: str
) -> None:
    """Whichever of the two bases is the latest."""
    for branch in (first, "draft" if first == "main" else "main"):
        edit(graph, branch, "a" if branch == "main" else "b", "second")
    cross(graph)
    edit(graph, "main", "a", "third")
    edit(graph, "draft", "b", "third")
    assert graph.branches.merge(source, into=into).conflicts == ()
    assert texts(graph, into) == {"a": "third", "b": "third", "c": "first", "d": "first"}


@pytest.mark.parametrize("first", ["main", "draft"])
def test_a_deletion_is_not_lost_to_a_base_that_lacks_the_entity(
    graph: og.Graph, first: str
) -> None:
    for branch in (first, "draft" if first == "main" else "main"):
        if branch == "main":
            change(graph, branch, 'insert Note { title: "new" }')
        else:
            edit(graph, branch, "b", "second")
    cross(graph)
    edit(graph, "main", "new", "ours")
    change(graph, "draft", 'delete Note where title = "new"')
    found = graph.branches.merge("draft", dry_run=True)
    assert [item.id for item in found.conflicts] == ["new"]
    graph.branches.merge("draft", resolve="theirs")
    assert "new" not in texts(graph)


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_base_on_a_deleted_branch_stays_that_only_its_children_brought(
    graph: og.Graph, is_renamed: bool
) -> None:
    edit(graph, "draft", "a", "of the draft")
    for child in ("one", "two"):
        graph.branches.create(child, "draft")
        change(graph, child, f'insert Note {{ title: "{child}" }}')
    if is_renamed:
        graph.branches.rename("draft", "sketch")
    graph.branches.create("side")
    edit(graph, "side", "b", "of the side")
    graph.branches.merge("one", into="main")
    graph.branches.merge("two", into="side")
    for name in ("one", "two", "sketch" if is_renamed else "draft"):
        graph.branches.delete(name)
    done = graph.branches.merge("side")
    assert done.outcome == "merged"
    assert texts(graph) == {
        "a": "of the draft",
        "b": "of the side",
        "c": "first",
        "d": "first",
        "one": None,
        "two": None,
    }


def test_a_base_that_our_side_is_like_is_no_change(graph: og.Graph) -> None:
    for branch in ("main", "draft"):
        edit(graph, branch, "a", f"of {branch}")
    cross(graph, resolve="ours")
    edit(graph, "main", "a", "of draft")
    edit(graph, "draft", "a", "of main")
    done = graph.branches.merge("draft", resolve=lambda _: "base")
    assert (len(done.settled), texts(graph)["a"]) == (1, "of draft")
    assert sum(counts.updated for counts in done.counts.values()) == len(
        list(graph.diff("main~1", "main"))
    )


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_node_that_stays_has_the_edges_that_it_needs(
    tmp_path: Path, source: str, into: str, side: Any
) -> None:
    """The later base has neither the node nor its edge, and one side deletes both of them."""
    schema = f"{SCHEMA}\nedge About: Note -> Note @card(1..)"
    with og.init(str(tmp_path / "edges.omni"), schema=schema) as graph:
        graph.load({"Note": [{"title": "a"}]})
        graph.branches.create("draft")
        rows = {"Note": [{"title": "n"}], "About": [{"from": "n", "to": "a"}]}
        graph.load(rows)
        edit(graph, "draft", "a", "elsewhere")
        cross(graph)
        edit(graph, "main", "n", "changed")
        change(graph, "draft", 'delete Note where title = "n"')
        graph.branches.merge(source, into=into, resolve=side)
        chosen = into if side == "ours" else source
        there = 1 if chosen == "main" else 0
        counts = {"node:Note": 1 + there, "edge:About": there}
        assert graph.snapshot(into).counts == counts


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_node_that_has_an_edge_too_many_gets_those_of_a_side(
    tmp_path: Path, source: str, into: str, side: Any
) -> None:
    """The earlier base has deleted an edge that the later one has, and one side puts another."""
    schema = f"{SCHEMA}\nedge About: Note -> Note @card(0..1)"
    with og.init(str(tmp_path / "edges.omni"), schema=schema) as graph:
        rows = [{"id": "e", "from": "a", "to": "b"}]
        graph.load({"Note": [{"title": title} for title in "ab"], "About": rows})
        graph.branches.create("draft")
        change(graph, "main", 'delete About where from = "a"')
        edit(graph, "draft", "b", "elsewhere")
        cross(graph)
        graph.branches.create("copy", "draft")
        graph.load({"About": rows}, branch="main")
        graph.load({"About": [{"id": "f", "from": "a", "to": "a"}]}, branch="draft")
        graph.branches.merge(source, into=into, resolve=side)
        found = graph.query("query q() { match { $a $e: about $b } return { $e } }", branch=into)
        chosen = into if side == "ours" else source
        assert [row["e"]["id"] for row in found] == ["e" if chosen == "main" else "f"]


@pytest.mark.parametrize("first", ["main", "draft"])
@pytest.mark.parametrize("dropped_on", ["main", "draft"])
def test_what_one_side_drops_from_the_schema_is_gone(
    graph: og.Graph, first: str, dropped_on: str
) -> None:
    """Also if the later base has never had it, as when the schema was changed before it."""
    more = SCHEMA.replace("}", " size: I32? }") + "\nnode Tag { name: String @key }"
    for branch in (first, "draft" if first == "main" else "main"):
        if branch == "main":
            graph.schema.apply(more)
            rows = {"Note": [{"title": "a", "size": 1}], "Tag": [{"name": "t"}]}
            graph.load(rows, mode="merge")
        else:
            edit(graph, branch, "b", "second")
    cross(graph)
    graph.schema.apply(SCHEMA, branch=dropped_on)
    for branch, title in (("main", "c"), ("draft", "d")):
        edit(graph, branch, title, "third")
    for source, into in (("draft", "main"), ("main", "draft")):
        graph.branches.create(f"copy-{into}", into)
        graph.branches.merge(source, into=f"copy-{into}")
        assert "size" not in graph.schema.show(f"copy-{into}")
        assert graph.snapshot(f"copy-{into}").counts == {"node:Note": 4}
    assert graph.diff("copy-main", "copy-draft").is_empty


@pytest.mark.parametrize("first", ["main", "draft"])
def test_a_type_with_changes_since_both_bases_is_not_dropped(graph: og.Graph, first: str) -> None:
    """Rows that a base brought along have not changed since."""
    graph.schema.apply(f"{SCHEMA}\nnode Tag {{ name: String @key }}")
    graph.branches.merge("main", into="draft")
    for branch in (first, "draft" if first == "main" else "main"):
        change(graph, branch, f'insert Tag {{ name: "of {branch}" }}')
    cross(graph)
    graph.schema.apply(SCHEMA, branch="draft")
    edit(graph, "main", "a", "third")
    assert graph.branches.merge("draft", dry_run=True).counts == {}
    change(graph, "main", 'insert Tag { name: "later" }')
    with pytest.raises(og.errors.Conflict, match=r"'main' changed entities \(1\)"):
        graph.branches.merge("draft")


@pytest.mark.parametrize("first", ["main", "draft"])
def test_a_property_is_renamed_before_and_after(graph: og.Graph, first: str) -> None:
    renamed = SCHEMA.replace("place: I32?", 'where: I32? @rename_from("place")')
    again = SCHEMA.replace("place: I32?", 'spot: I32? @rename_from("where")')
    for branch in (first, "draft" if first == "main" else "main"):
        if branch == "main":
            graph.schema.apply(renamed)
        else:
            edit(graph, branch, "b", "second")
    cross(graph)
    graph.schema.apply(again, branch="draft")
    edit(graph, "main", "a", "third")
    graph.branches.merge("draft")
    assert "spot" in graph.schema.show()


@pytest.mark.parametrize("first", ["main", "draft"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_conflict_is_about_the_base_that_has_changed_the_entity(
    graph: og.Graph, first: str, source: str, into: str
) -> None:
    """Also if the later base has never had it: then all values would be in dispute."""
    for branch in (first, "draft" if first == "main" else "main"):
        if branch == "main":
            change(graph, branch, 'insert Note { title: "n", text: "first", place: 3 }')
        else:
            edit(graph, branch, "b", "second")
    cross(graph)
    for branch in ("main", "draft"):
        edit(graph, branch, "n", f"of {branch}")
    change(graph, "main", 'update Note set { place: 0 } where title = "n"')
    (conflict,) = graph.branches.merge(source, into=into, dry_run=True).conflicts
    assert (conflict.kind.value, conflict.properties) == ("divergent_update", ("text",))
    assert (conflict.base or {})["text"] == "first"
    chosen = {"ours": f"of {into}", "theirs": f"of {source}", "base": "first", "value": "given"}
    for choice, text in chosen.items():
        graph.branches.create(f"copy-{choice}", into)
        answer: Any = {"text": "given"} if choice == "value" else choice
        done = graph.branches.merge(
            source, into=f"copy-{choice}", resolve=lambda _, answer=answer: answer
        )
        assert done.settled == ((conflict, answer),)
        rows = graph.query(
            "query q() { match { $n: Note } return { $n } }", branch=f"copy-{choice}"
        )
        (note,) = [row["n"] for row in rows if row["n"]["title"] == "n"]
        assert (note["text"], note["place"]) == (text, 0)


@pytest.mark.parametrize("first", ["main", "draft"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_deleted_entity_comes_back_as_at_the_base_that_has_it(
    graph: og.Graph, first: str, source: str, into: str
) -> None:
    for branch in (first, "draft" if first == "main" else "main"):
        if branch == "main":
            change(graph, branch, 'insert Note { title: "n", text: "first", place: 3 }')
        else:
            edit(graph, branch, "b", "second")
    cross(graph)
    edit(graph, "main", "n", "again")
    change(graph, "draft", 'delete Note where title = "n"')
    (conflict,) = graph.branches.merge(source, into=into, dry_run=True).conflicts
    assert conflict.kind.value == "delete_vs_update"
    assert (conflict.base or {})["text"] == "first"
    graph.branches.merge(source, into=into, resolve=lambda _: "base")
    assert texts(graph, into)["n"] == "first"


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_a_node_that_one_base_keeps_needs_the_edges_that_another_one_takes(
    tmp_path: Path, source: str, into: str, side: Any
) -> None:
    """One base has deleted it, the other one has its edge, and each side has chosen otherwise."""
    schema = f"{SCHEMA}\nedge About: Note -> Note @card(1..)"
    with og.init(str(tmp_path / "edges.omni"), schema=schema) as graph:
        graph.load({"Note": [{"title": "a"}, {"title": "n"}]})
        graph.branches.create("draft")
        change(graph, "draft", 'delete Note where title = "n"')
        change(graph, "main", 'insert About { from: "n", to: "a" }')
        graph.branches.create("before", "main")
        graph.branches.merge("draft", resolve="theirs")
        graph.branches.merge("before", into="draft", resolve="theirs")
        found = graph.branches.merge(source, into=into, dry_run=True).conflicts
        assert [(item.kind.value, item.id) for item in found] == [("cardinality_violation", "n")]
        graph.branches.merge(source, into=into, resolve=side)
        there = 1 if (into if side == "ours" else source) == "draft" else 0
        counts = {"node:Note": 1 + there, "edge:About": there}
        assert graph.snapshot(into).counts == counts


@pytest.mark.parametrize("last", ["main", "one", "two"])
@pytest.mark.parametrize(("source", "into"), [("release", "main"), ("main", "release")])
def test_three_bases_of_one_commit_each_decide_about_what_they_changed(
    graph: og.Graph, last: str, source: str, into: str
) -> None:
    """Both branches have merged the same two others and an older state of one of them."""
    for name in ("one", "two", "release"):
        graph.branches.create(name)
    titles = {"main": "a", "one": "b", "two": "c"}
    for branch in sorted(titles, key=lambda name: name == last):
        if branch == "one":
            graph.schema.apply(f"{SCHEMA}\nnode Tag {{ name: String @key }}", branch=branch)
        edit(graph, branch, titles[branch], "second")
    graph.branches.create("main-before", "main")
    for target, sources in (("main", ("one", "two")), ("release", ("main-before", "one", "two"))):
        for name in sources:
            graph.branches.merge(name, into=target)
    graph.schema.apply(SCHEMA, branch="release")
    edit(graph, "main", "b", "third")
    edit(graph, "release", "c", "third")
    graph.branches.merge(source, into=into)
    assert texts(graph, into) == {"a": "second", "b": "third", "c": "third", "d": "first"}
    assert "Tag" not in graph.schema.show(into)


@pytest.mark.parametrize("last", ["main", "one", "two"])
def test_bases_that_come_from_several_commits_agree_about_the_schema(
    graph: og.Graph, last: str
) -> None:
    """One of three branches was made later than another one."""
    graph.branches.create("one")
    graph.branches.create("release")
    edit(graph, "main", "d", "second")
    graph.branches.create("two")
    titles = {"main": "a", "one": "b", "two": "c"}
    for branch in sorted(titles, key=lambda name: name == last):
        if branch == "one":
            graph.schema.apply(f"{SCHEMA}\nnode Tag {{ name: String @key }}", branch=branch)
        edit(graph, branch, titles[branch], "second")
    graph.branches.create("main-before", "main")
    for target, sources in (("main", ("one", "two")), ("release", ("main-before", "one", "two"))):
        for name in sources:
            graph.branches.merge(name, into=target)
    graph.schema.apply(SCHEMA, branch="release")
    edit(graph, "main", "a", "third")
    graph.branches.merge("release", resolve="ours")
    assert texts(graph) == {"a": "third", "b": "second", "c": "second", "d": "second"}
    assert "Tag" not in graph.schema.show()


@pytest.mark.parametrize("first", ["main", "draft"])
def test_bases_disagree_about_an_entity_of_a_type_without_properties(
    graph: og.Graph, first: str
) -> None:
    """Branches that have crossed twice: no state is known from which both bases come."""
    graph.schema.apply(f"{SCHEMA}\nnode Tag {{}}")
    graph.branches.merge("main", into="draft")
    for titles in ("ab", "cd"):
        for branch in (first, "draft" if first == "main" else "main"):
            edit(graph, branch, titles[branch == "draft"], "second")
            if branch == "main" and titles == "cd":
                graph.load({"Tag": [{"id": "t"}]}, mode="merge")
        cross(graph)
        graph.branches.delete("main-before")
    change(graph, "draft", 'delete Tag where id = "t"')
    for source, into in (("main", "draft"), ("draft", "main")):
        found = graph.branches.merge(source, into=into, dry_run=True)
        assert [(item.type, item.id) for item in found.conflicts] == [("Tag", "t")]
