"""One suite for embedded graphs and those of a server: the same calls, results and errors."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.server.config import GraphEntry, ServerConfig
from tests.serving import serving

SCHEMA = """
node Person {
  name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]?  big: U64?
}
node File { path: String @key  content: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($n: String) { insert Person { name: $n } }"
AGE = "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
NAMES = "query q() { match { $p: Person } return { $p.name as name } order { $p.name asc } }"


def _draft(graph: Any) -> str:
    """The branch `draft`, with a commit of its own; made if it is not there."""
    if not {"draft", "plan"} & set(graph.branches.list()):
        graph.branches.create("draft")
        graph.mutate(ADD, {"n": "Draft"}, branch="draft")
    return "draft"


def _gone(graph: Any, key: str) -> str:
    """A branch that is made by the first call only."""
    graph.branches.create("gone", idempotency_key=f"{key}, made")
    return "gone"


# Each write, so that it can be made twice with one key.
CALLS: dict[str, Any] = {
    "create": lambda g, **key: g.branches.create("made", **key),
    "delete": lambda g, idempotency_key: g.branches.delete(
        _gone(g, idempotency_key), idempotency_key=idempotency_key
    ),
    "rename": lambda g, **key: g.branches.rename(_draft(g), "plan", **key),
    "protect": lambda g, **key: g.branches.protect(_draft(g), **key),
    "reset": lambda g, **key: g.branches.reset(_draft(g), to="main~1", **key),
    "revert": lambda g, **key: g.branches.revert("draft", _draft(g), **key),
    "tag": lambda g, **key: g.tags.create("v1", **key),
    "apply": lambda g, **key: g.schema.apply(
        SCHEMA + "node City { name: String @key }", branch=_draft(g), **key
    ),
}


@pytest.fixture(scope="module", params=["embedded", "remote"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Any]:
    place = tmp_path_factory.mktemp(request.param) / "g.omni"
    og.init(place, SCHEMA).close()
    if request.param == "embedded":
        with og.open(place) as graph:
            yield graph
        return
    config = ServerConfig(graphs=(GraphEntry(id="g", uri=str(place)),))
    with serving(config) as served, og.connect(served.url) as graph:
        yield graph


@pytest.fixture
def graph(opened: Any) -> Any:
    """The graph, with the two people that every test starts from, and nothing else."""
    opened.load(
        [
            {"type": "Person", "data": {"name": "Ada", "age": 36}},
            {"type": "Person", "data": {"name": "Bo"}},
            {"type": "File", "data": {"path": "a", "content": "base64:aGVsbG8="}},
            {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": 2020}},
        ],
        mode="overwrite",
    )
    return opened


def test_values_come_as_they_were_written(graph: Any) -> None:
    values = {
        "born": date(1815, 12, 10),
        "seen": datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
        "big": 2**64 - 1,
        "tags": ["x", "y"],
    }
    graph.mutate(
        "query q($born: Date, $seen: DateTime, $big: U64, $tags: [String]) {"
        ' insert Person { name: "Cy", born: $born, seen: $seen, big: $big, tags: $tags } }',
        values,
    )
    rows = graph.query(
        'query q() { match { $p: Person { name: "Cy" } } return {'
        " $p.born as born, $p.seen as seen, $p.big as big, $p.tags as tags, $p.age as age } }"
    )
    assert rows == [{**values, "age": None}]
    assert rows.columns == ("born", "seen", "big", "tags", "age")
    assert rows.to_arrow().num_rows == len(rows) == 1
    assert rows.tuples() == [(*values.values(), None)]


def test_a_mutation_tells_what_it_did(graph: Any) -> None:
    done = graph.mutate(AGE, {"n": "Bo", "a": 30}, message="a birthday")
    assert (done.affected_nodes, done.affected_edges, done.replayed) == (1, 0, False)
    assert done.commit == graph.commits.show(done.commit.id)
    assert done.commit.message == "a birthday"
    assert graph.mutate(AGE, {"n": "nobody", "a": 1}).commit is None


def test_a_key_makes_it_happen_once(graph: Any) -> None:
    first = graph.mutate(ADD, {"n": "Key"}, idempotency_key=f"key-{graph.snapshot().commit}")
    again = graph.mutate(ADD, {"n": "Key"}, idempotency_key=first.commit.idempotency_key)
    assert again.replayed
    assert again.commit == first.commit


@pytest.mark.parametrize("name", CALLS)
def test_every_write_takes_a_key(graph: Any, name: str) -> None:
    key = f"{name}-{graph.snapshot().commit}"
    call = CALLS[name]
    first = call(graph, idempotency_key=key)
    again = call(graph, idempotency_key=key)
    assert getattr(again, "replayed", True)
    if name == "apply":
        first, again = first.commit, again.commit
    elif hasattr(again, "replayed"):
        again = replace(again, replayed=False)
    assert again == first
    # A key is for one branch; refs are kept on main.
    branch = "draft" if name in ("reset", "revert", "apply") else "main"
    with pytest.raises(og.errors.Conflict) as refused:
        graph.mutate(ADD, {"n": "Other"}, branch=branch, idempotency_key=key)
    assert refused.value.code is og.errors.Code.IDEMPOTENCY_KEY_REUSED
    for branch in set(graph.branches.list()) - {"main"}:
        graph.branches.unprotect(branch)
        graph.branches.delete(branch)
    for tag in graph.tags.list():
        graph.tags.delete(tag.name)


def test_errors_are_of_the_same_class(graph: Any) -> None:
    with pytest.raises(og.errors.InvalidInput) as wrong:
        graph.query("query q() { match { $p: Persn } return { $p.name } }")
    assert wrong.value.diagnostics[0]["code"]
    with pytest.raises(og.errors.NotFound):
        graph.query(NAMES, branch="nowhere")
    with pytest.raises(og.errors.ConstraintViolated) as broken:
        graph.mutate('query q() { insert Knows { from: "Ada", to: "nobody" } }')
    assert broken.value.violations
    head = graph.snapshot().commit
    graph.mutate(AGE, {"n": "Ada", "a": 1})
    with pytest.raises(og.errors.PreconditionFailed) as lost:
        graph.mutate(AGE, {"n": "Ada", "a": 2}, if_commit=head)
    assert lost.value.details["expected"] == head
    with pytest.raises(og.errors.InvalidInput):
        graph.branches.create("not a name!")
    with pytest.raises(og.errors.ConstraintViolated) as loaded:
        graph.load([{"edge": "Knows", "from": "Ada", "to": "nobody"}])
    assert loaded.value.violations[0]["line"] == 1


def test_branches_merge_or_conflict(graph: Any) -> None:
    made = graph.branches.create("draft")
    assert (made.parent, made.head) == ("main", graph.snapshot().commit)
    draft = graph.branch("draft")
    draft.mutate(AGE, {"n": "Bo", "a": 20})
    graph.mutate(AGE, {"n": "Bo", "a": 40})
    planned = graph.branches.merge("draft", dry_run=True)
    assert [item.kind.value for item in planned.conflicts] == ["divergent_update"]
    with pytest.raises(og.errors.Conflict) as refused:
        graph.branches.merge("draft")
    assert refused.value.conflicts[0]["type_name"] == "Person"
    done = graph.branches.merge("draft", resolve="theirs", delete_branch=True)
    assert (done.outcome, done.branch_deleted) == ("merged", True)
    assert done.counts["node:Person"].updated == 1
    assert graph.branches.list() == ["main"]


@pytest.mark.parametrize("by", ["file", "function"])
def test_conflicts_are_settled_one_by_one(graph: Any, tmp_path: Path, by: str) -> None:
    graph.branches.create("draft")
    for name, theirs, ours in (("Ada", 21, 41), ("Bo", 22, 42)):
        graph.mutate(AGE, {"n": name, "a": theirs}, branch="draft")
        graph.mutate(AGE, {"n": name, "a": ours})
    answers: dict[str, Any] = {"Ada": "theirs", "Bo": {"age": 7}}
    file = tmp_path / "choices.jsonl"
    planned = graph.branches.merge("draft", dry_run=True)
    assert planned.write_resolutions(file) == 2
    with pytest.raises(og.errors.InvalidInput, match=f"{file.name}, line 1: .* has no choice"):
        graph.branches.merge("draft", resolve=file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        answer = answers[line["entity_id"]]
        is_side = isinstance(answer, str)
        line["choice"], line["value"] = (answer, None) if is_side else ("value", answer)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    resolve = file if by == "file" else lambda conflict: answers[conflict.id]
    tried = graph.branches.merge("draft", resolve=resolve, dry_run=True)
    assert (tried.conflicts, tried.commit) == ((), None)
    assert {each.id: choice for each, choice in tried.settled} == answers
    with pytest.raises(og.errors.Conflict) as left:
        graph.branches.merge("draft", resolve=lambda each: "ours" if each.id == "Bo" else None)
    assert [each["entity_id"] for each in left.value.conflicts] == ["Ada"]
    done = graph.branches.merge("draft", resolve=resolve, delete_branch=True, idempotency_key=by)
    assert (done.outcome, len(done.settled), done.branch_deleted) == ("merged", 2, True)
    rows = graph.query("query q() { match { $p: Person } return { $p.name as n, $p.age as a } }")
    assert {row["n"]: row["a"] for row in rows if row["n"] in answers} == {"Ada": 21, "Bo": 7}
    again = graph.branches.merge("draft", resolve=resolve, delete_branch=True, idempotency_key=by)
    assert (again.replayed, again.commit.id) == (True, done.commit.id)
    with pytest.raises(og.errors.InvalidInput, match="function"):
        graph.branches.merge("draft", resolve="both")


def test_a_function_is_asked_again_when_others_have_written(graph: Any) -> None:
    graph.branches.create("draft")
    graph.mutate(AGE, {"n": "Bo", "a": 20}, branch="draft")
    graph.mutate(AGE, {"n": "Bo", "a": 40})
    asked: list[Any] = []

    def resolve(conflict: Any) -> Any:
        asked.append(conflict.ours["age"])
        if len(asked) == 1:
            graph.mutate(AGE, {"n": "Bo", "a": 50})
        return {"age": conflict.ours["age"] + conflict.theirs["age"]}

    done = graph.branches.merge("draft", resolve=resolve, delete_branch=True)
    assert (asked, done.outcome) == ([40, 50], "merged")
    assert [each.theirs["age"] for each, _ in done.settled] == [20]
    ages = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"
    assert {row["n"]: row["a"] for row in graph.query(ages)}["Bo"] == 70


@pytest.mark.parametrize("by", ["file", "function"])
def test_a_revert_is_settled_one_by_one(graph: Any, tmp_path: Path, by: str) -> None:
    wrong = graph.mutate(AGE, {"n": "Bo", "a": 20}).commit.id
    graph.mutate(AGE, {"n": "Bo", "a": 30})
    planned = graph.branches.revert(wrong, dry_run=True)
    assert [each.id for each in planned.conflicts] == ["Bo"]
    file = tmp_path / "choices.jsonl"
    planned.write_resolutions(file)
    line = {**json.loads(file.read_text()), "choice": "value", "value": {"age": 25}}
    file.write_text(json.dumps(line) + "\n")
    done = graph.branches.revert(wrong, resolve=file if by == "file" else lambda _: {"age": 25})
    assert [choice for _, choice in done.settled] == [{"age": 25}]
    ages = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }"
    assert {row["n"]: row["a"] for row in graph.query(ages)}["Bo"] == 25


def test_history_diff_and_blame_agree(graph: Any) -> None:
    before = graph.snapshot()
    done = graph.mutate(AGE, {"n": "Ada", "a": 70})
    diff = graph.diff(before, "main")
    assert diff.counts["node:Person"].updated == 1
    assert [(item.id, item.operation, item.changed) for item in diff] == [
        ("Ada", "update", ("age",))
    ]
    assert [item.id for item in graph.commits.changes(done.commit.id)] == ["Ada"]
    assert graph.commits.list(limit=1) == [done.commit]
    assert graph.blame("Person", "Ada", limit=1)[0].commit == done.commit
    assert before.query(NAMES) == graph.query(NAMES, at=before.commit)


def test_a_diff_is_narrowed_and_printed(graph: Any) -> None:
    before = graph.snapshot()
    graph.load(
        [
            {"type": "Person", "data": {"name": "Cy"}},
            {"type": "Person", "data": {"name": "Di"}},
            {"edge": "Knows", "from": "Cy", "to": "Di"},
        ]
    )
    diff = graph.diff(before)
    first, *rest = diff
    assert list(diff.after((f"{first.kind}:{first.type}", first.id))) == rest
    assert str(diff).startswith("node:Person  +2\n+ Person 'Cy'")
    edges = graph.diff(before, kind="edge")
    assert list(edges.counts) == ["edge:Knows"]
    assert [item.kind for item in edges] == ["edge"]
    assert graph.snapshot(version=before.version).commit == before.commit
    assert graph.snapshot(at=graph.commits.list(limit=1)[0].created_at).counts != before.counts


def test_history_is_drawn(graph: Any) -> None:
    graph.branches.create("side")
    graph.mutate(ADD, {"n": "Side"}, branch="side", message="beside")
    done = graph.branches.merge("side", delete_branch=True)
    lines = graph.commits.log(limit=2).splitlines()
    assert lines[0] == f"*  {done.commit.id}  (main) branch_merge" + (
        f" by {done.commit.actor}" if done.commit.actor else ""
    )
    assert graph.commits.version(done.commit.id) == graph.snapshot().version
    assert graph.commits.log("main", branches=["main"], limit=2).splitlines() == lines


def test_progress_is_told(graph: Any, tmp_path: Path) -> None:
    heard: list[og.Progress] = []
    file = tmp_path / "more.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Told"}}\n')
    graph.load(file, mode="merge", progress=heard.append)
    assert heard[-1].bytes == file.stat().st_size
    assert heard[-1].rows == 1
    heard.clear()
    done = graph.export(tmp_path / "all.jsonl", progress=heard.append, types=["Person"])
    assert done.rows == {"node:Person": 3}
    assert (heard[-1].rows, heard[-1].bytes) == (3, done.bytes)


def test_the_feed_goes_on_from_a_baseline(graph: Any) -> None:
    base = graph.changes.baseline()
    assert {(item.type, item.id) for item in base} >= {("Person", "Ada"), ("Person", "Bo")}
    graph.mutate(ADD, {"n": "Cy"})
    page = graph.changes.poll(base.cursor)
    assert [event.change.id for event in page.events] == ["Cy"]
    assert not page.more


def test_tags_name_commits(graph: Any) -> None:
    tag = graph.tags.create("v1", message="as published", force=True)
    assert graph.tags.get("v1") == tag
    graph.mutate(ADD, {"n": "Late"})
    assert graph.snapshot(at="v1").commit == tag.commit
    assert graph.tags.delete("v1") == tag
    assert graph.tags.list() == []


def test_the_schema_is_planned_and_applied(graph: Any) -> None:
    wanted = graph.schema.show() + "\nnode City { name: String @key }\n"
    if "City" in graph.schema.show():
        pytest.skip("another run has applied it")
    planned = graph.schema.plan(wanted)
    assert planned.can_be_applied
    assert [step["kind"] for step in planned.steps] == ["add_type"]
    done = graph.schema.apply(wanted)
    assert done.commit is not None
    assert "City" in graph.schema.show()


def test_blobs_are_read_by_ranges(graph: Any) -> None:
    assert graph.read_blob("File", "a", "content") == b"hello"
    assert graph.read_blob("File", "a", "content", offset=1, length=3) == b"ell"
    assert graph.read_blob("File", "a", "content", offset=9) == b""
    with pytest.raises(og.errors.NotFound):
        graph.read_blob("File", "nothing", "content")


def test_what_is_exported_can_be_loaded(graph: Any, tmp_path: Path) -> None:
    graph.export(tmp_path / "people.jsonl", types=["Person"])
    lines = (tmp_path / "people.jsonl").read_text().splitlines()
    assert len(lines) == 2
    done = graph.load(tmp_path / "people.jsonl", mode="merge", branch="copy", create_from="main")
    assert done.branch_created
    assert done.commit.branch == "copy"
    graph.branches.delete("copy")
    stream = io.BytesIO(b'{"type":"Person","data":{"name":"Di"}}\n')
    loaded = graph.load(stream, mode="append", format="ndjson")
    assert loaded.counts["node:Person"].inserted == 1


def test_plans_are_explained(graph: Any) -> None:
    assert "Person" in graph.explain(NAMES)


COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


def test_a_transaction_sees_its_own_changes_and_is_one_commit(graph: Any) -> None:
    before = graph.snapshot().commit
    with graph.transaction(message="two at once") as tx:
        assert (tx.state, tx.branch, tx.base) == ("open", "main", before)
        done = tx.mutate(ADD, {"n": "Cy"})
        assert (done.affected_nodes, done.affected_edges, done.commit) == (1, 0, None)
        assert tx.load({"Person": [{"name": "Di", "born": date(2000, 1, 2)}]}).affected_nodes == 1
        assert tx.query(COUNT) == [{"n": 4}]
        assert graph.query(COUNT) == [{"n": 2}]
        with pytest.raises(og.errors.InvalidInput) as wrong:
            tx.mutate("query q() { insert Persn { name: 'x' } }")
        assert wrong.value.diagnostics
    assert tx.state == "committed"
    assert (tx.result.affected_nodes, tx.result.affected_edges) == (2, 0)
    assert tx.result.commit == graph.commits.show(tx.result.commit.id)
    assert (tx.result.commit.parent_id, tx.result.commit.message) == (before, "two at once")
    assert graph.query(COUNT) == [{"n": 4}]


def test_a_transaction_that_ends_otherwise_changes_nothing(graph: Any) -> None:
    before = graph.snapshot().commit
    with graph.transaction() as tx:
        tx.mutate(ADD, {"n": "Cy"})
        tx.rollback()
    assert tx.state == "rolled_back"

    def add_and_fail(tx: Any) -> None:
        tx.mutate(ADD, {"n": "Cy"})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        graph.transact(add_and_fail)
    tx = graph.transaction()
    with pytest.raises(og.errors.ConstraintViolated) as broken, tx:
        tx.mutate('query q() { insert Knows { from: "Ada", to: "nobody" } }')
    assert broken.value.violations
    assert tx.state == "failed"
    with pytest.raises(og.errors.InvalidInput) as late:
        tx.query(COUNT)
    assert late.value.code == "transaction_invalid"
    with pytest.raises(og.errors.InvalidInput) as early:
        graph.transaction().mutate(ADD, {"n": "x"})
    assert early.value.code == "transaction_invalid"
    with pytest.raises(og.errors.PreconditionFailed), graph.transaction(if_commit="0" * 26) as tx:
        tx.mutate(ADD, {"n": "Cy"})
    assert graph.snapshot().commit == before


@pytest.mark.parametrize("retries", [-1, 1.5, "2", True])
def test_retries_are_a_whole_number(graph: Any, retries: object) -> None:
    with pytest.raises(og.errors.InvalidInput):
        graph.transact(lambda tx: None, retries=retries)
    with pytest.raises(og.errors.InvalidInput):
        graph.mutate(ADD, {"n": "Cy"}, retries=retries)


def test_a_transaction_with_a_key_happens_once(graph: Any) -> None:
    key = f"tx-{graph.snapshot().commit}"
    done = []
    for _ in range(2):
        with graph.transaction(idempotency_key=key) as tx:
            tx.load({"Person": [{"name": "Once"}]}, "merge")
        done.append(tx.result)
    assert [each.replayed for each in done] == [False, True]
    assert done[0].commit == done[1].commit


def test_a_transaction_that_others_overtake_starts_over(graph: Any) -> None:
    runs: list[int] = []

    def birthday(tx: Any) -> int:
        ask = 'query q() { match { $p: Person { name: "Ada" } } return { $p.age as age } }'
        age = int(tx.query(ask)[0]["age"]) + 1
        if not runs:
            graph.mutate(AGE, {"n": "Ada", "a": 50})
        runs.append(age)
        tx.mutate(AGE, {"n": "Ada", "a": age})
        return age

    done = graph.transact(birthday)
    assert (runs, done.value) == ([37, 51], 51)
    assert done.commit is not None
    runs.clear()
    with pytest.raises(og.errors.Conflict):
        graph.transact(birthday, retries=0)


def test_a_query_is_profiled(graph: Any) -> None:
    found = graph.profile(NAMES)
    assert found.rows == [{"name": "Ada"}, {"name": "Bo"}]
    assert found.entries
    assert all(each.nanoseconds >= 0 for each in found.entries)
    assert str(found).startswith("path: ")
    assert graph.snapshot().profile(NAMES).rows == found.rows


def test_maintenance_reports(graph: Any) -> None:
    assert graph.verify().is_sound
    assert graph.verify("rows").rows > 0
    assert graph.recover().is_settled
    assert graph.repair(dry_run=True).is_settled
    found = graph.cleanup(keep=1, dry_run=True)
    assert (found.dry_run, found.states > 0) == (True, True)
    graph.optimize()
    graph.ensure_indices()
    assert graph.embed().vectors == {}
    graph.refresh()
    with pytest.raises(og.errors.InvalidInput):
        graph.verify("everything")
    with pytest.raises(og.errors.InvalidInput):
        graph.cleanup(older_than="soon", dry_run=True)
