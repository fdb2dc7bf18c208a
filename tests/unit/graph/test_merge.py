"""`graph.branches.merge`: outcomes, conflicts, resolutions, lineage."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.layout import MANIFEST
from omnigraph.errors import Code
from omnigraph.exec.merge.requests import Merged, MergeRequest
from omnigraph.exec.tuning import tuned

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  tags: [String]?
  photo: Blob?
  email: String?
  first: String?
  last: String?
  @unique(email)
  @unique(first, last)
  @range(age, 0..150)
}
node Note { title: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge Likes: Person -> Person
edge Wrote: Person -> Note @card(0..2)
"""
START = """
query start() {
  insert Person { name: "Ada", age: 36, city: "London", tags: ["a"], photo: "base64:aGVsbG8=" }
  insert Person { name: "Bo", age: 41, email: "bo@x" }
  insert Person { name: "Cy" }
  insert Note { title: "n1" }
  insert Note { title: "n2" }
  insert Note { title: "n3" }
  insert Knows { from: "Ada", to: "Bo" }
}
"""
PEOPLE = "query q() { match { $p: Person } return { $p } order { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA, actor="tester") as graph:
        graph.mutate(START)
        graph.branches.create("draft")
        yield graph


def change(graph: og.Graph, branch: str, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def people(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    return {row["p"]["id"]: row["p"] for row in graph.query(PEOPLE, branch=branch)}


def edges(graph: og.Graph, name: str = "knows", branch: str = "main") -> list[tuple[str, str]]:
    text = f"query q() {{ match {{ $a: Person  $a $k: {name} $b }} return {{ $k }} }}"
    found = [row["k"] for row in graph.query(text, branch=branch)]
    return sorted((item["from"], item["to"]) for item in found)


def conflict_kinds(graph: og.Graph, **terms: Any) -> list[tuple[str, str | None]]:
    found = graph.branches.merge("draft", dry_run=True, **terms)
    return [(item.kind.value, item.id) for item in found.conflicts]


def test_nothing_new_is_up_to_date(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { age: 1 } where name = "Cy"')
    head = graph.snapshot().commit
    done = graph.branches.merge("draft")
    assert (done.outcome, done.commit) == ("already_up_to_date", None)
    assert graph.snapshot().commit == head


def test_a_fast_forward_gives_their_state(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di", photo: "base64:eA==", tags: [] }')
    change(graph, "draft", 'update Person set { age: 37 } where name = "Ada"')
    change(graph, "draft", 'delete Person where name = "Bo"')
    done = graph.branches.merge("draft")
    assert done.outcome == "fast_forward"
    assert done.counts == {
        "node:Person": og.ChangeCounts(inserted=1, updated=1, deleted=1),
        "edge:Knows": og.ChangeCounts(deleted=1),
    }
    assert graph.diff("main", "draft").is_empty
    assert people(graph) == people(graph, "draft")
    assert graph.read_blob("Person", "Di", "photo") == b"x"
    assert graph.read_blob("Person", "Ada", "photo") == b"hello"
    assert done.commit is not None
    assert done.commit.merged_parent_id == graph.snapshot("draft").commit
    assert (done.commit.actor, done.commit.kind) == ("tester", "branch_merge")


def test_changes_of_both_sides_come_together(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { age: 37 } where name = "Ada"')
    change(graph, "draft", 'insert Knows { from: "Bo", to: "Cy" }')
    change(graph, "main", 'update Person set { city: "Turin" } where name = "Ada"')
    change(graph, "main", 'insert Person { name: "Di" }')
    done = graph.branches.merge("draft")
    assert done.outcome == "merged"
    found = people(graph)
    assert (found["Ada"]["age"], found["Ada"]["city"], found["Ada"]["tags"]) == (37, "Turin", ["a"])
    assert graph.read_blob("Person", "Ada", "photo") == b"hello"
    assert list(found) == ["Ada", "Bo", "Cy", "Di"]
    assert edges(graph) == [("Ada", "Bo"), ("Bo", "Cy")]
    assert graph.branches.merge("draft").outcome == "already_up_to_date"
    assert people(graph, "draft")["Ada"]["city"] == "London"
    assert graph.branches.merge("main", into="draft").outcome == "fast_forward"
    assert graph.diff("main", "draft").is_empty


def test_row_granularity_makes_different_properties_a_conflict(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { age: 37 } where name = "Ada"')
    change(graph, "main", 'update Person set { city: "Turin" } where name = "Ada"')
    assert conflict_kinds(graph) == []
    assert conflict_kinds(graph, granularity="row") == [("divergent_update", "Ada")]
    graph.branches.merge("draft", granularity="row", resolve="theirs")
    assert people(graph)["Ada"]["city"] == "London"


def test_equal_changes_are_no_conflict(graph: og.Graph) -> None:
    for branch in ("main", "draft"):
        change(graph, branch, 'update Person set { age: 50, tags: ["z"] } where name = "Ada"')
        change(graph, branch, 'insert Person { name: "Di", age: 1 }')
        change(graph, branch, 'insert Knows { from: "Bo", to: "Cy", since: 1 }')
        change(graph, branch, 'delete Person where name = "Cy"')
    done = graph.branches.merge("draft")
    assert (done.outcome, done.counts) == ("merged", {})
    assert edges(graph) == [("Ada", "Bo")]


@pytest.mark.parametrize("touched_max", [0, 1 << 18])
def test_what_our_side_wrote_as_it_was_stands_in_nobodys_way(
    graph: og.Graph, touched_max: int
) -> None:
    """Our rows are compared only where theirs has touched them, too, unless there are many."""
    notes = [{"title": name} for name in ("n1", "n2", "n3")]
    people_before = [
        {"name": "Ada", "age": 36, "city": "London", "tags": ["a"]},
        {"name": "Cy"},
        {"name": "Bo", "age": 41, "email": "bo@x"},
    ]
    graph.load({"Note": notes, "Person": people_before[1:]}, mode="merge")
    change(graph, "main", 'update Person set { city: "Turin" } where name = "Ada"')
    change(graph, "main", 'update Person set { city: "London" } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 37, city: "Rome" } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 7 } where name = "Cy"')
    change(graph, "draft", 'delete Note where title = "n2"')
    with tuned(touched_rows_max=touched_max):
        assert conflict_kinds(graph, granularity="row") == []
        done = graph.branches.merge("draft", granularity="row")
    assert done.counts == {
        "node:Person": og.ChangeCounts(updated=2),
        "node:Note": og.ChangeCounts(deleted=1),
    }
    found = people(graph)
    assert (found["Ada"]["city"], found["Cy"]["age"], found["Bo"]["age"]) == ("Rome", 7, 41)


def test_edges_without_a_key_are_told_apart_by_their_ids(graph: og.Graph) -> None:
    for branch in ("main", "draft"):
        change(graph, branch, 'insert Likes { from: "Ada", to: "Bo" }')
    graph.branches.merge("draft")
    assert edges(graph, "likes") == [("Ada", "Bo"), ("Ada", "Bo")]


CONFLICTS = {
    "divergent_update": (
        'update Person set { age: 1 } where name = "Ada"',
        'update Person set { age: 2 } where name = "Ada"',
        "Ada",
    ),
    "divergent_update of lists": (
        'update Person set { tags: ["x"] } where name = "Ada"',
        'update Person set { tags: ["y"] } where name = "Ada"',
        "Ada",
    ),
    "divergent_update of blobs": (
        'update Person set { photo: "base64:aGVsbG0=" } where name = "Ada"',
        'update Person set { photo: "base64:aGVsbGk=" } where name = "Ada"',
        "Ada",
    ),
    "divergent_insert": (
        'insert Person { name: "Di", age: 1 }',
        'insert Person { name: "Di", age: 2 }',
        "Di",
    ),
    "divergent_insert of edges": (
        'insert Knows { from: "Bo", to: "Cy", since: 1 }',
        'insert Knows { from: "Bo", to: "Cy", since: 2 }',
        '["Bo","Cy"]',
    ),
    "delete_vs_update": (
        'delete Person where name = "Cy"',
        'update Person set { age: 2 } where name = "Cy"',
        "Cy",
    ),
    "delete_vs_update the other way": (
        'update Person set { age: 2 } where name = "Cy"',
        'delete Person where name = "Cy"',
        "Cy",
    ),
    "orphan_edge": (
        'insert Knows { from: "Bo", to: "Cy" }',
        'delete Person where name = "Cy"',
        '["Bo","Cy"]',
    ),
    "orphan_edge the other way": (
        'delete Person where name = "Cy"',
        'insert Knows { from: "Bo", to: "Cy" }',
        '["Bo","Cy"]',
    ),
    "unique_violation": (
        'update Person set { email: "new" } where name = "Ada"',
        'update Person set { email: "new" } where name = "Cy"',
        "Ada",
    ),
    "cardinality_violation": (
        'insert Wrote { from: "Ada", to: "n1" } insert Wrote { from: "Ada", to: "n2" }',
        'insert Wrote { from: "Ada", to: "n3" }',
        "Ada",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflicts(graph: og.Graph, name: str) -> None:
    theirs, ours, about = CONFLICTS[name]
    change(graph, "draft", theirs)
    change(graph, "main", ours)
    kind = name.partition(" ")[0]
    assert conflict_kinds(graph) == [(kind, about)]
    head, state = graph.snapshot().commit, people(graph)
    with pytest.raises(og.errors.Conflict) as failure:
        graph.branches.merge("draft")
    assert failure.value.code == Code.MERGE_CONFLICT
    assert failure.value.conflicts[0]["kind"] == kind
    assert failure.value.conflicts[0]["entity_id"] == about
    assert (graph.snapshot().commit, people(graph)) == (head, state), "nothing has changed"


def test_a_combination_of_both_sides_must_be_unique(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { first: "a", last: "b" } where name = "Bo"')
    graph.branches.delete("draft")
    graph.branches.create("draft")
    change(graph, "draft", 'update Person set { first: "a" } where name = "Ada"')
    change(graph, "main", 'update Person set { last: "b" } where name = "Ada"')
    assert conflict_kinds(graph) == [("unique_violation", "Ada")]


def test_a_conflict_tells_all_three_values(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { age: 1, city: "Rome" } where name = "Ada"')
    change(graph, "main", 'update Person set { age: 2 } where name = "Ada"')
    (conflict,) = graph.branches.merge("draft", dry_run=True).conflicts
    assert conflict.properties == ("age",)
    assert conflict.base is not None
    assert conflict.ours is not None
    assert conflict.theirs is not None
    assert [side["age"] for side in (conflict.base, conflict.ours, conflict.theirs)] == [36, 2, 1]
    assert "both sides changed age" in conflict.message


def test_a_conflict_tells_which_side_deleted(graph: og.Graph) -> None:
    change(graph, "draft", 'delete Person where name = "Cy"')
    change(graph, "main", 'update Person set { age: 2 } where name = "Cy"')
    graph.branches.create("other")
    (conflict,) = graph.branches.merge("draft", dry_run=True).conflicts
    assert conflict.message == "Person 'Cy' was deleted by theirs and changed by ours"
    (conflict,) = graph.branches.merge("other", into="draft", dry_run=True).conflicts
    assert conflict.message == "Person 'Cy' was deleted by ours and changed by theirs"


def test_sides_settle_conflicts_and_keep_the_rest(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { age: 1, city: "Rome" } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 5 } where name = "Bo"')
    change(graph, "main", 'update Person set { age: 2 } where name = "Ada"')
    change(graph, "main", 'update Person set { age: 6 } where name = "Bo"')
    graph.branches.create("other")
    graph.branches.merge("draft", resolve="ours")
    assert [people(graph)[name]["age"] for name in ("Ada", "Bo")] == [2, 6]
    assert people(graph)["Ada"]["city"] == "Rome"
    graph.branches.merge("draft", into="other", resolve="theirs")
    assert [people(graph, "other")[name]["age"] for name in ("Ada", "Bo")] == [1, 5]


def test_a_function_settles_conflicts_one_by_one(graph: og.Graph) -> None:
    for branch, age in (("draft", 1), ("main", 2)):
        change(graph, branch, f'update Person set {{ age: {age} }} where name = "Ada"')
        change(graph, branch, f'update Person set {{ age: {age} }} where name = "Bo"')
    with pytest.raises(og.errors.Conflict) as failure:
        graph.branches.merge("draft", resolve=lambda item: "theirs" if item.id == "Bo" else None)
    assert [item["entity_id"] for item in failure.value.conflicts] == ["Ada"]
    graph.branches.merge("draft", resolve=lambda item: "theirs" if item.id == "Bo" else "ours")
    assert [people(graph)[name]["age"] for name in ("Ada", "Bo")] == [2, 1]


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_deletion_against_an_update_is_settled(graph: og.Graph, side: Any) -> None:
    change(graph, "draft", 'delete Person where name = "Cy"')
    change(graph, "draft", 'update Person set { age: 7 } where name = "Bo"')
    change(graph, "main", 'update Person set { age: 7 } where name = "Cy"')
    change(graph, "main", 'delete Person where name = "Bo"')
    graph.branches.merge("draft", resolve=side)
    assert ("Cy" in people(graph), "Bo" in people(graph)) == (side == "ours", side == "theirs")


def test_an_orphan_is_settled(graph: og.Graph) -> None:
    change(graph, "draft", 'delete Person where name = "Cy"')
    change(graph, "main", 'insert Knows { from: "Bo", to: "Cy" }')
    graph.branches.create("other")
    graph.branches.merge("draft", resolve="ours")
    assert "Cy" in people(graph)
    assert ("Bo", "Cy") in edges(graph)
    graph.branches.merge("draft", into="other", resolve="theirs")
    assert "Cy" not in people(graph, "other")
    assert ("Bo", "Cy") not in edges(graph, branch="other")


def test_a_dry_run_changes_nothing(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    head = graph.snapshot().commit
    with og.open(graph.uri, mode="r") as reader:
        found = reader.branches.merge("draft", dry_run=True)
    assert (found.outcome, found.commit) == ("fast_forward", None)
    assert found.counts["node:Person"].inserted == 1
    assert graph.snapshot().commit == head


def test_a_branch_that_nets_to_nothing_still_counts_as_merged(graph: og.Graph) -> None:
    change(graph, "draft", 'update Person set { age: 1 } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 36 } where name = "Ada"')
    change(graph, "main", 'update Person set { age: 9 } where name = "Ada"')
    done = graph.branches.merge("draft")
    assert (done.outcome, done.counts) == ("merged", {})
    assert people(graph)["Ada"]["age"] == 9
    assert graph.branches.merge("draft").outcome == "already_up_to_date"


def test_the_branch_goes_afterwards(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    done = graph.branches.merge("draft", delete_branch=True)
    assert done.branch_deleted
    assert graph.branches.list() == ["main"]
    assert "Di" in people(graph)


def test_a_reversal_after_a_merge_stays_although_the_branch_is_gone(graph: og.Graph) -> None:
    """The commits of a merged and deleted branch still count as shared history."""
    change(graph, "draft", 'update Person set { age: 1 } where name = "Ada"')
    graph.branches.create("other", "draft")
    graph.branches.merge("draft")
    change(graph, "main", 'update Person set { age: 36 } where name = "Ada"')
    change(graph, "other", 'update Person set { age: 5 } where name = "Bo"')
    graph.branches.merge("draft", into="other")
    graph.branches.merge("other")
    assert (people(graph)["Ada"]["age"], people(graph)["Bo"]["age"]) == (36, 5)


def test_a_criss_cross_merge_takes_what_all_bases_agree_on(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { age: 1 } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 2 } where name = "Bo"')
    graph.branches.create("main-before", "main")
    graph.branches.create("draft-before", "draft")
    graph.branches.merge("draft-before", into="main")
    graph.branches.merge("main-before", into="draft")
    change(graph, "draft", 'update Person set { city: "Rome" } where name = "Cy"')
    change(graph, "main", 'update Person set { city: "Oslo" } where name = "Bo"')
    done = graph.branches.merge("draft")
    assert done.outcome == "merged"
    found = people(graph)
    assert [found[name]["age"] for name in ("Ada", "Bo")] == [1, 2]
    assert [found[name]["city"] for name in ("Bo", "Cy")] == ["Oslo", "Rome"]


def test_a_criss_cross_merge_refuses_what_bases_disagree_on(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { age: 1 } where name = "Ada"')
    change(graph, "draft", 'update Person set { age: 2 } where name = "Ada"')
    graph.branches.create("main-before", "main")
    graph.branches.create("draft-before", "draft")
    graph.branches.merge("draft-before", into="main", resolve="ours")
    graph.branches.merge("main-before", into="draft", resolve="ours")
    found = graph.branches.merge("draft", dry_run=True)
    assert [item.id for item in found.conflicts] == ["Ada"]
    graph.branches.merge("draft", resolve="theirs")
    assert people(graph)["Ada"]["age"] == 2


def test_a_repeated_key_merges_once(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    first = graph.branches.merge("draft", idempotency_key="k")
    change(graph, "draft", 'insert Person { name: "Ed" }')
    again = graph.branches.merge("draft", idempotency_key="k")
    assert again.replayed
    assert (again.commit, again.outcome, again.counts) == (
        first.commit,
        first.outcome,
        first.counts,
    )
    assert "Ed" not in people(graph)
    with pytest.raises(og.errors.Conflict, match="another operation"):
        graph.mutate('query q() { insert Person { name: "Fy" } }', idempotency_key="k")


def newest(graph: og.Graph) -> str:
    return graph.commits.list(limit=1)[0].id


def test_a_commit_is_taken_back(graph: og.Graph) -> None:
    before = people(graph), edges(graph)
    change(graph, "main", 'delete Person where name = "Bo"')
    wrong = newest(graph)
    change(graph, "main", 'update Person set { age: 1 } where name = "Cy"')
    done = graph.branches.revert(wrong, message="Bo stays")
    assert done.counts == {
        "node:Person": og.ChangeCounts(inserted=1),
        "edge:Knows": og.ChangeCounts(inserted=1),
    }
    assert people(graph)["Bo"] == before[0]["Bo"]
    assert edges(graph) == before[1]
    assert people(graph)["Cy"]["age"] == 1
    assert done.commit is not None
    assert (done.commit.kind, done.commit.merged_parent_id) == ("revert", None)
    assert done.commit.message == "Bo stays"
    graph.branches.revert(done.commit.id)
    assert "Bo" not in people(graph), "a revert of a revert does it again"


def test_what_was_changed_since_is_not_taken_back_silently(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { age: 1, city: "Rome" } where name = "Ada"')
    wrong = newest(graph)
    change(graph, "main", 'update Person set { age: 2 } where name = "Ada"')
    with pytest.raises(og.errors.Conflict) as failure:
        graph.branches.revert(wrong)
    assert failure.value.conflicts[0]["properties"] == ["age"]
    graph.branches.revert(wrong, resolve="ours")
    assert (people(graph)["Ada"]["age"], people(graph)["Ada"]["city"]) == (2, "London")


def test_a_merge_is_taken_back_as_a_whole(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    change(graph, "draft", 'insert Knows { from: "Di", to: "Ada" }')
    change(graph, "main", 'update Person set { age: 1 } where name = "Cy"')
    before = people(graph), edges(graph)
    done = graph.branches.merge("draft")
    assert done.commit is not None
    graph.branches.revert(done.commit.id)
    assert (people(graph), edges(graph)) == before


def test_only_commits_of_the_branch_are_taken_back(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    theirs = graph.commits.list("draft")[0].id
    first = graph.commits.list()[-1].id
    for commit, reason in ((theirs, "not in the history of branch 'main'"), (first, "made the")):
        with pytest.raises(og.errors.InvalidInput, match=reason):
            graph.branches.revert(commit)


def test_what_is_taken_back_already_makes_no_commit(graph: og.Graph) -> None:
    change(graph, "main", 'update Person set { age: 1 } where name = "Ada"')
    wrong = newest(graph)
    graph.branches.revert(wrong)
    head = newest(graph)
    for terms in ({}, {"dry_run": True}, {"resolve": "theirs"}):
        done = graph.branches.revert(wrong, **terms)
        assert (done.outcome, done.commit, done.counts) == ("already_up_to_date", None, {})
    assert newest(graph) == head


def test_a_deleted_branch_that_was_merged_into_both_is_the_merge_base(graph: og.Graph) -> None:
    """One of both took it by a fast-forward."""
    change(graph, "draft", 'update Person set { age: 1 } where name = "Ada"')
    graph.branches.create("other")
    graph.branches.merge("draft", into="other")
    graph.branches.merge("draft", delete_branch=True)
    change(graph, "main", 'update Person set { age: 36 } where name = "Ada"')
    change(graph, "other", 'insert Person { name: "Ed" }')
    graph.branches.merge("other")
    assert people(graph)["Ada"]["age"] == 36, "it was set back after the merge"
    assert "Ed" in people(graph)


def merged_into_both(graph: og.Graph) -> None:
    """Merge a branch into two others that have changes of their own, and delete it."""
    graph.branches.create("other")
    for branch in ("main", "other"):
        change(graph, branch, 'update Person set { age: 3 } where name = "Cy"')
    change(graph, "draft", 'update Person set { age: 1 } where name = "Ada"')
    change(graph, "draft", 'insert Person { name: "Di" }')
    graph.branches.merge("draft", into="other")
    assert graph.branches.merge("draft", delete_branch=True).branch_deleted


def test_a_deleted_branch_that_two_others_have_merged_is_still_their_base(graph: og.Graph) -> None:
    """Without its state, a value that was set back since would be taken for one that never was."""
    merged_into_both(graph)
    change(graph, "main", 'update Person set { age: 36 } where name = "Ada"')
    change(graph, "other", 'delete Person where name = "Di"')
    graph.branches.merge("other")
    assert people(graph)["Ada"]["age"] == 36
    assert "Di" not in people(graph)
    assert graph.branches.list() == ["main", "other"]


def test_a_state_that_merges_compare_with_stays_until_no_two_branches_share_it(
    graph: og.Graph,
) -> None:
    merged_into_both(graph)
    branches, tables = graph._repo.branches, graph._repo.tables
    branches.reclaim()
    assert "draft" in tables.fork_names(MANIFEST)
    graph.branches.merge("other")
    branches.reclaim()
    assert "draft" not in tables.fork_names(MANIFEST), "the merge is their base now"
    graph.branches.delete("other")
    branches.reclaim()
    assert not tables.fork_names(MANIFEST)


def test_a_branch_that_was_written_to_after_it_was_merged_is_not_deleted(graph: og.Graph) -> None:
    change(graph, "draft", 'insert Person { name: "Di" }')
    merge = graph.branches._merger.merge

    def late(request: MergeRequest) -> Merged:
        done = merge(request)
        change(graph, "draft", 'insert Person { name: "Ed" }')
        return done

    graph.branches._merger.merge = late  # type: ignore[method-assign]
    done = graph.branches.merge("draft", delete_branch=True)
    assert not done.branch_deleted
    assert "has moved on" in str(done.branch_delete_error)
    assert "Ed" in people(graph, "draft")


def test_bad_arguments(graph: og.Graph) -> None:
    with pytest.raises(og.errors.InvalidInput, match="into itself"):
        graph.branches.merge("main")
    with pytest.raises(og.errors.NotFound):
        graph.branches.merge("nowhere")
    with pytest.raises(og.errors.InvalidInput, match="resolved by"):
        graph.branches.merge("draft", resolve="mine")
    with pytest.raises(og.errors.InvalidInput, match="granularity"):
        graph.branches.merge("draft", granularity="cell")  # type: ignore[arg-type]
    with og.open(graph.uri, mode="r") as reader, pytest.raises(og.errors.Forbidden):
        reader.branches.merge("draft")


OPERATIONS = {
    "noop": "",
    "addNode": 'insert Person { name: "New", age: %d }',
    "removeNode": 'delete Person where name = "Cy"',
    "addEdge": 'insert Knows { from: "Bo", to: "Cy" }',
    "removeEdge": 'delete Knows where from = "Ada"',
    "setProperty": 'update Person set { age: %d } where name = "Cy"',
}
CLASHES = {
    ("addNode", "addNode"): "divergent_insert",
    ("setProperty", "setProperty"): "divergent_update",
    ("removeNode", "setProperty"): "delete_vs_update",
    ("setProperty", "removeNode"): "delete_vs_update",
    ("removeNode", "addEdge"): "orphan_edge",
    ("addEdge", "removeNode"): "orphan_edge",
}


@pytest.mark.parametrize(("theirs", "ours"), list(product(OPERATIONS, OPERATIONS)))
def test_every_pair_of_operations(graph: og.Graph, theirs: str, ours: str) -> None:
    for branch, name, value in (("draft", theirs, 1), ("main", ours, 2)):
        text = OPERATIONS[name]
        if text:
            change(graph, branch, text % value if "%" in text else text)
    found = graph.branches.merge("draft", dry_run=True)
    expected = CLASHES.get((theirs, ours))
    if theirs == "noop":
        assert found.outcome == "already_up_to_date"
    elif ours == "noop":
        assert found.outcome == "fast_forward"
    else:
        assert found.outcome == "merged"
    assert [item.kind.value for item in found.conflicts] == ([expected] if expected else [])
    if expected is None:
        graph.branches.merge("draft")
        assert graph.branches.merge("draft").outcome == "already_up_to_date"


@pytest.mark.parametrize("kind", ["value", "side"])
def test_what_comes_out_as_it_was_is_no_change(tmp_path: Path, kind: str) -> None:
    text = "node Person { name: String @key  email: String?  face: Blob?  @unique(email) }"
    people = [{"name": name, "email": name, "face": b"x"} for name in ("Ada", "Bo")]
    with og.init(str(tmp_path / "g.omni"), schema=text) as graph:
        graph.load({"Person": people})
        graph.branches.create("draft")
        names = ("Ada", "Ada") if kind == "value" else ("Ada", "Bo")
        for (branch, email), name in zip((("main", "new"), ("draft", "new")), names, strict=True):
            value = email if kind == "side" else f"{email} of {branch}"
            rows = [{"name": name, "email": value}]
            graph.load({"Person": rows}, mode="merge", branch=branch)
        resolve: Any = "ours" if kind == "side" else lambda _: {"email": "new of main"}
        done = graph.branches.merge("draft", resolve=resolve)
        assert (len(done.settled), dict(done.counts)) == (1, {})
        assert graph.diff("main~1", "main").is_empty


def test_entities_with_nothing_but_a_blob_are_merged(tmp_path: Path) -> None:
    with og.init(str(tmp_path / "g.omni"), schema="node Photo { data: Blob }") as graph:
        graph.load({"Photo": [{"id": name, "data": b"first"} for name in "abc"]})
        graph.branches.create("draft")
        for branch, name in (("main", "a"), ("draft", "b")):
            rows = [{"id": name, "data": f"of {branch}".encode()}, {"id": branch, "data": b"new"}]
            graph.load({"Photo": rows}, mode="merge", branch=branch)
        counts = graph.branches.merge("draft").counts["node:Photo"]
        assert (counts.inserted, counts.updated) == (1, 1)
        found = {name: graph.read_blob("Photo", name, "data") for name in ("a", "b", "c", "draft")}
        assert found == {"a": b"of main", "b": b"of draft", "c": b"first", "draft": b"new"}


@pytest.mark.parametrize("has_base", [False, True])
def test_entities_of_a_type_without_properties_are_the_same_on_both_sides(
    tmp_path: Path, has_base: bool
) -> None:
    with og.init(str(tmp_path / "bare.omni"), schema="node Mark { }") as graph:
        rows = {"Mark": [{"id": "x"}, {"id": "y"}]}
        if has_base:
            graph.load(rows)
        graph.branches.create("draft")
        for branch, other in (("main", "m"), ("draft", "d")):
            graph.load({"Mark": [*rows["Mark"], {"id": other}]}, mode="merge", branch=branch)
        assert graph.branches.merge("draft").counts == {"node:Mark": og.ChangeCounts(inserted=1)}
        assert graph.branches.merge("main", into="draft").outcome == "fast_forward"
        assert graph.snapshot().counts == {"node:Mark": 4}
