"""Schema changes on stored graphs, through the facade."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.publish.publisher import Published
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.errors import (
    Code,
    Conflict,
    ConstraintViolated,
    GraphError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
)
from omnigraph.store.reading.data_files import field_ids

BEFORE = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  height: F32?
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
ROWS = {
    "Person": [
        {"name": "Ada", "age": 36, "nick": "a", "height": 1.5},
        {"name": "Bo", "age": 20, "nick": "b"},
        {"name": "Cy", "nick": "b"},
    ],
    "City": [{"name": "Oslo"}],
    "Knows": [
        {"from": "Ada", "to": "Bo", "since": 1},
        {"from": "Ada", "to": "Cy", "since": 2},
    ],
    "LivesIn": [{"from": "Ada", "to": "Oslo"}],
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g.omni", schema=BEFORE)
    made.load(ROWS)
    return made


def changed(old: str, new: str, text: str = BEFORE) -> str:
    assert old in text
    return text.replace(old, new)


def people(graph: og.Graph, *properties: str, **options: Any) -> list[tuple[Any, ...]]:
    names = ", ".join(f"$p.{name} as {name}" for name in ("name", *properties))
    found = graph.query(
        f"query q() {{ match {{ $p: Person }} return {{ {names} }} order {{ name }} }}", **options
    )
    return [tuple(row.values()) for row in found]


def listed(error: GraphError, name: str) -> list[dict[str, Any]]:
    found: Any = error.details[name]
    return list(found)


# -- every kind of step ----------------------------------------------------------------------------

ADA, BO, CY = "Ada", "Bo", "Cy"
ALTERED = {
    "add_nullable": (
        changed("nick: String?", "nick: String?  mail: String?"),
        ("mail",),
        [(ADA, None), (BO, None), (CY, None)],
    ),
    "add_list": (
        changed("nick: String?", "nick: String?  tags: [String]?"),
        ("tags",),
        [(ADA, None), (BO, None), (CY, None)],
    ),
    "add_vector": (
        changed("nick: String?", "nick: String?  place: Vector(2)?"),
        ("place",),
        [(ADA, None), (BO, None), (CY, None)],
    ),
    "add_default": (
        changed("nick: String?", 'nick: String?  state: String @default("new")'),
        ("state",),
        [(ADA, "new"), (BO, "new"), (CY, "new")],
    ),
    "rename": (
        changed("nick: String?", 'alias: String? @rename_from("nick")'),
        ("alias",),
        [(ADA, "a"), (BO, "b"), (CY, "b")],
    ),
    "widen": (
        changed("age: I32?", "age: I64?"),
        ("age",),
        [(ADA, 36), (BO, 20), (CY, None)],
    ),
    "widen_float": (
        changed("height: F32?", "height: F64?"),
        ("height",),
        [(ADA, 1.5), (BO, None), (CY, None)],
    ),
    "widen_and_rename": (
        changed("age: I32?", 'years: I64? @rename_from("age")'),
        ("years",),
        [(ADA, 36), (BO, 20), (CY, None)],
    ),
    "drop": (changed("nick: String?", ""), ("age",), [(ADA, 36), (BO, 20), (CY, None)]),
    "drop_and_add_of_the_same_name": (
        changed("nick: String?", 'other: String? @rename_from("nick")  nick: I32?'),
        ("other", "nick"),
        [(ADA, "a", None), (BO, "b", None), (CY, "b", None)],
    ),
    "all_at_once": (
        changed(
            "age: I32?",
            'age: I64?  state: String @default("x")  mail: String?',
            changed("nick: String?", 'alias: String? @rename_from("nick")'),
        ),
        ("age", "state", "mail", "alias"),
        [(ADA, 36, "x", None, "a"), (BO, 20, "x", None, "b"), (CY, None, "x", None, "b")],
    ),
}


@pytest.mark.parametrize("where", ["main", "draft"])
@pytest.mark.parametrize("case", ALTERED)
def test_columns_are_altered_by_one_commit_and_the_past_stays(
    graph: og.Graph, case: str, where: str
) -> None:
    wanted, properties, rows = ALTERED[case]
    graph.branches.create("draft")
    before = graph.snapshot(branch=where).commit
    done = graph.schema.apply(wanted, branch=where, message="a change")
    assert done.commit is not None
    assert (done.commit.kind, done.commit.message) == ("schema_apply", "a change")
    assert people(graph, *properties, branch=where) == rows
    # Also by somebody who has read nothing before.
    again = og.open(graph.uri)
    assert people(again, *properties, branch=where) == rows
    assert again.schema.show(where) == wanted
    # The commit before has its own schema, and so has the other branch.
    assert people(graph, "nick", "age", at=before) == [
        ("Ada", "a", 36),
        ("Bo", "b", 20),
        ("Cy", "b", None),
    ]
    other = "draft" if where == "main" else "main"
    assert people(graph, "nick", branch=other) == [("Ada", "a"), ("Bo", "b"), ("Cy", "b")]
    # Writes go on, with every kind of change.
    graph.mutate('query q() { insert Person { name: "Di" } }', branch=where)
    graph.mutate('query q() { update Person set { height: 2.5 } where name = "Bo" }', branch=where)
    graph.mutate('query q() { delete Person where name = "Ada" }', branch=where)
    assert [row[0] for row in people(graph, branch=where)] == ["Bo", "Cy", "Di"]
    assert people(graph, "height", branch=where)[0] == ("Bo", 2.5)
    graph.load({"Person": [{"name": "Ed"}]}, branch=where, mode="merge")
    graph.optimize(branch=where)
    assert [row[0] for row in people(graph, branch=where)] == ["Bo", "Cy", "Di", "Ed"]


def test_types_come_go_and_get_other_names(graph: og.Graph) -> None:
    wanted = """
    node Human @rename_from("Person") { name: String @key  age: I32?  nick: String?  height: F32? }
    node Dog { name: String @key }
    edge Knows: Human -> Human { since: I32? }
    edge Owns: Human -> Dog
    """
    before = graph.snapshot().commit
    done = graph.schema.apply(wanted)
    assert {step["kind"] for step in done.steps} == {"rename_type", "add_type", "drop_type"}
    graph.load({"Dog": [{"name": "Rex"}], "Owns": [{"from": "Ada", "to": "Rex"}]})
    text = """query q() {
      match { $h: Human { name: "Ada" }  $h knows $o  $h owns $d }
      return { $o.name as o, $d.name as d } order { o }
    }"""
    expected = [{"o": "Bo", "d": "Rex"}, {"o": "Cy", "d": "Rex"}]
    assert graph.query(text).to_pylist() == expected
    assert og.open(graph.uri).query(text).to_pylist() == expected
    with pytest.raises(InvalidInput):
        graph.query("query q() { match { $c: City } return { $c.name } }")
    found = graph.query("query q() { match { $c: City } return { $c.name as n } }", at=before)
    assert found.to_pylist() == [{"n": "Oslo"}]
    assert set(graph.snapshot().counts) == {"node:Human", "node:Dog", "edge:Knows", "edge:Owns"}


def test_a_type_is_renamed_and_gets_its_name_back(graph: og.Graph) -> None:
    graph.schema.apply(
        BEFORE.replace("City", "Town").replace("node Town", 'node Town @rename_from("City")')
    )
    assert graph.snapshot().counts["node:Town"] == 1
    graph.schema.apply(BEFORE.replace("node City", 'node City @rename_from("Town")'))
    assert graph.snapshot().counts["node:City"] == 1
    assert graph.query(
        "query q() { match { $p: Person  $p livesIn $c } return { $c.name as n } }"
    ).to_pylist() == [{"n": "Oslo"}]


def test_a_dropped_type_that_is_declared_again_is_a_new_one(graph: og.Graph) -> None:
    without = changed(
        "node City { name: String @key }", "", changed("edge LivesIn: Person -> City", "")
    )
    graph.schema.apply(without)
    graph.schema.apply(BEFORE)
    assert graph.snapshot().counts["node:City"] == 0
    graph.load({"City": [{"name": "Rome"}]})
    assert graph.snapshot().counts["node:City"] == 1


def test_two_branches_may_add_the_same_type_each_in_its_way(graph: og.Graph) -> None:
    graph.branches.create("draft")
    graph.schema.apply(BEFORE + "node Dog { name: String @key }")
    graph.load({"Dog": [{"name": "Rex"}]})
    graph.schema.apply(BEFORE + "node Dog { name: String @key  age: I32? }", branch="draft")
    graph.load({"Dog": [{"name": "Fido", "age": 3}]}, branch="draft")
    text = "query q() { match { $d: Dog } return { $d.name as n } }"
    assert graph.query(text).to_pylist() == [{"n": "Rex"}]
    assert graph.query(text, branch="draft").to_pylist() == [{"n": "Fido"}]
    graph.load({"Dog": [{"name": "Max"}]})
    assert len(graph.query(text)) == 2


def test_a_type_of_a_branch_can_be_added_to_main_later(graph: og.Graph) -> None:
    graph.branches.create("draft")
    graph.schema.apply(BEFORE + "node Dog { name: String @key }", branch="draft")
    graph.load({"Dog": [{"name": "Fido"}]}, branch="draft")
    graph.schema.apply(BEFORE + "node Dog { name: String @key  age: I32? }")
    graph.load({"Dog": [{"name": "Rex", "age": 1}]})
    text = "query q() { match { $d: Dog } return { $d.name as n } }"
    assert graph.query(text).to_pylist() == [{"n": "Rex"}]
    assert graph.query(text, branch="draft").to_pylist() == [{"n": "Fido"}]


def test_a_renamed_property_keeps_its_index_and_its_old_name_can_get_another(
    tmp_path: Path,
) -> None:
    text = "node Doc { title: String @key  body: String? @index  kind: String? }"
    graph = og.init(tmp_path / "d.omni", schema=text)
    graph.load({"Doc": [{"title": f"t{n}", "body": f"word{n} shared"} for n in range(20)]})
    graph.optimize()
    renamed = (
        'node Doc { title: String @key  words: String? @index @rename_from("body")  kind: String? }'
    )
    graph.schema.apply(renamed)
    search = (
        """query q() { match { $d: Doc  search($d.words, "word7") } return { $d.title as t } }"""
    )
    assert graph.query(search).to_pylist() == [{"t": "t7"}]
    assert graph.optimize().commit is None, "the index of the renamed column is complete"
    again = renamed.replace(' @rename_from("body")', "").replace(
        "kind: String?", "kind: String?  body: String? @index"
    )
    graph.schema.apply(again)
    graph.load({"Doc": [{"title": "t3", "body": "other"}]}, mode="merge")
    graph.optimize()
    assert graph.optimize().commit is None
    assert graph.query(search).to_pylist() == [{"t": "t7"}]
    other = search.replace("words", "body").replace("word7", "other")
    assert graph.query(other).to_pylist() == [{"t": "t3"}]


def test_blobs_are_added_renamed_and_dropped(tmp_path: Path) -> None:
    text = "node File { name: String @key  data: Blob? }"
    graph = og.init(tmp_path / "f.omni", schema=text)
    graph.load({"File": [{"name": "a", "data": "base64:AQID"}]})
    graph.schema.apply(
        'node File { name: String @key  bytes: Blob? @rename_from("data")  more: Blob? }'
    )
    assert graph.read_blob("File", "a", "bytes") == b"\x01\x02\x03"
    assert graph.read_blob("File", "a", "more") is None
    with pytest.raises(InvalidInput) as caught:
        graph.schema.apply('node File { name: String @key  more: Blob? @rename_from("bytes") }')
    assert caught.value.code is Code.MIGRATION_UNSUPPORTED
    graph.schema.apply("node File { name: String @key  bytes: Blob? }")
    assert og.open(graph.uri).read_blob("File", "a", "bytes") == b"\x01\x02\x03"


# -- rules -----------------------------------------------------------------------------------------

REFUSED_BY_ROWS = {
    "required": (changed("age: I32?", "age: I32"), ["Cy"]),
    "unique": (changed("nick: String?", "nick: String? @unique"), ["Cy"]),
    "range": (changed("height: F32?", "height: F32?  @range(age, 30..)"), ["Bo"]),
    "check": (changed("height: F32?", 'height: F32?  @check(nick, "^a")'), ["Bo", "Cy"]),
    "cardinality": (
        changed("edge Knows: Person -> Person", "edge Knows: Person -> Person @card(0..1)"),
        ["Ada"],
    ),
    "default_is_not_unique": (
        changed("nick: String?", 'nick: String?  code: String @default("x") @unique'),
        ["Bo", "Cy"],
    ),
}


@pytest.mark.parametrize("case", REFUSED_BY_ROWS)
def test_stored_rows_that_break_a_new_rule_are_all_named_and_nothing_changes(
    graph: og.Graph, case: str
) -> None:
    wanted, ids = REFUSED_BY_ROWS[case]
    before = graph.snapshot().commit
    planned = graph.schema.plan(wanted)
    assert (planned.supported, planned.can_be_applied) == (True, False)
    assert [item["id"] for item in planned.violations] == ids
    with pytest.raises(ConstraintViolated) as caught:
        graph.schema.apply(wanted)
    assert [item["id"] for item in listed(caught.value, "violations")] == ids
    assert (graph.snapshot().commit, graph.schema.show()) == (before, BEFORE)


def test_an_enum_loses_the_values_that_no_row_has(tmp_path: Path) -> None:
    text = 'node Pet { name: String @key  s: enum(a, b) @default("b")  k: enum(x, y)? }'
    graph = og.init(tmp_path / "g.omni", schema="node Pet { name: String @key }")
    graph.load({"Pet": [{"name": "Rex"}, {"name": "Tim"}]})
    graph.schema.apply(text)
    graph.mutate('query q() { update Pet set { s: "a" } where name = "Rex" }')
    narrow = text.replace("(a, b)", "(a, c)").replace('("b")', '("c")').replace("(x, y)", "(x)")
    planned = graph.schema.plan(narrow)
    assert [(step["kind"], step["tier"]) for step in planned.steps] == [
        ("extend_enum", "safe"),
        ("narrow_enum", "validated"),
        ("narrow_enum", "validated"),
        ("change_default", "safe"),
    ]
    assert [item["id"] for item in planned.violations] == ["Tim"]
    with pytest.raises(ConstraintViolated, match=r"Tim"):
        graph.schema.apply(narrow)
    graph.mutate('query q() { update Pet set { s: "a" } where name = "Tim" }')
    before = graph.snapshot().commit
    graph.schema.apply(narrow)
    # What rows got once is still known, though it is no value any more.
    graph = og.open(graph.uri)
    with pytest.raises(ConstraintViolated):
        graph.load({"Pet": [{"name": "Old", "s": "b"}]})
    graph.load({"Pet": [{"name": "New"}]})
    shown = "query q() { match { $p: Pet } return { $p.name as n, $p.s as s } order { n } }"
    assert [tuple(row.values()) for row in graph.query(shown)] == [
        ("New", "c"),
        ("Rex", "a"),
        ("Tim", "a"),
    ]
    assert graph.diff(before, "main").counts["node:Pet"].inserted == 1


def test_a_rule_that_the_rows_keep_is_applied_and_holds(graph: og.Graph) -> None:
    graph.schema.apply(changed("height: F32?", "height: F32?  @range(age, 0..150)"))
    with pytest.raises(ConstraintViolated):
        graph.mutate('query q() { insert Person { name: "Old", age: 200 } }')


def test_what_cannot_be_bridged_is_refused_with_every_reason(graph: og.Graph) -> None:
    wanted = changed("age: I32?", "age: String?", changed("nick: String?", "nick: Bool?"))
    assert not graph.schema.plan(wanted).supported
    with pytest.raises(InvalidInput) as caught:
        graph.schema.apply(wanted)
    assert caught.value.code is Code.MIGRATION_UNSUPPORTED
    assert len(listed(caught.value, "steps")) == 2


# -- plans -----------------------------------------------------------------------------------------


def test_a_plan_says_what_is_touched_and_writes_nothing(graph: og.Graph) -> None:
    before = graph.snapshot().commit
    planned = graph.schema.plan(changed("age: I32?", "age: I64?"))
    (step,) = planned.steps
    assert (step["kind"], step["touches_data"]) == ("change_type", "rewrite")
    assert planned.rows == {"node:Person": 3}
    assert planned.can_be_applied
    assert graph.snapshot().commit == before


def test_a_plan_names_the_queries_that_it_would_break(graph: og.Graph, tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "good.gq").write_text("query q() { match { $p: Person } return { $p.name } }")
    (folder / "bad.gq").write_text("query q() {\n match { $p: Person } return { $p.nick } }")
    wanted = changed("nick: String?", 'alias: String? @rename_from("nick")')
    planned = graph.schema.plan(wanted, queries=folder)
    ((file, (problem,)),) = planned.broken_queries.items()
    assert file == str(folder / "bad.gq")
    assert problem.startswith("2:")
    assert not graph.schema.plan(BEFORE, queries=folder).broken_queries
    with pytest.raises(NotFound):
        graph.schema.plan(wanted, queries=tmp_path / "none.gq")


def test_the_schema_in_force_is_not_applied_again(graph: og.Graph) -> None:
    before = graph.snapshot().commit
    done = graph.schema.apply(BEFORE)
    assert (done.commit, done.steps, graph.snapshot().commit) == (None, (), before)


def test_a_path_is_read_and_the_copy_for_people_follows(graph: og.Graph, tmp_path: Path) -> None:
    wanted = BEFORE + "node Dog { name: String @key }"
    file = tmp_path / "wanted.pg"
    file.write_text(wanted)
    graph.schema.apply(file)
    assert (Path(graph.uri.removeprefix("file://")) / "_schema.pg").read_text() == wanted


# -- beside others ---------------------------------------------------------------------------------


def test_the_head_can_be_a_condition(graph: og.Graph) -> None:
    old = graph.snapshot().commit
    graph.mutate('query q() { insert Person { name: "Di" } }')
    with pytest.raises(PreconditionFailed):
        graph.schema.apply(changed("age: I32?", "age: I64?"), if_commit=old)


def test_a_handle_that_was_open_all_the_time_has_the_new_schema(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    assert len(people(other)) == 3
    graph.schema.apply(changed("nick: String?", 'alias: String? @rename_from("nick")'))
    assert people(other, "alias") == [("Ada", "a"), ("Bo", "b"), ("Cy", "b")]
    other.mutate('query q() { update Person set { alias: "z" } where name = "Cy" }')
    assert people(graph, "alias")[2] == ("Cy", "z")


def test_a_key_makes_the_change_once(graph: og.Graph) -> None:
    wanted = changed("age: I32?", "age: I64?")
    first = graph.schema.apply(wanted, idempotency_key="k")
    assert first.commit is not None
    before = graph.snapshot().commit
    graph.schema.apply(wanted, idempotency_key="k")
    assert graph.snapshot().commit == before


# -- what is dropped -------------------------------------------------------------------------------


def stored_fields(graph: og.Graph, key: str) -> tuple[set[int], set[int]]:
    """The numbers of the columns that the files of a type hold, and of those that it shows."""
    table = graph._repo.table(graph._repo.snapshot().pin(key))
    files = [file for each in table.dataset.get_fragments() for file in each.metadata.files]
    shown = set(field_ids(table.dataset.lance_schema.fields()))
    return {number for file in files for number in file.fields}, shown


def test_dropped_values_stay_in_the_files_unless_data_may_be_lost(tmp_path: Path) -> None:
    text = """
    node Person { name: String @key @index  nick: String?  tags: [String]?  place: Vector(2)? }
    node File { name: String @key  data: Blob?  note: String? }
    """
    graph = og.init(tmp_path / "h.omni", schema=text)
    people = [
        {"name": f"p{n}", "nick": "secret", "tags": ["a"] if n % 2 else None, "place": [1, n]}
        for n in range(20)
    ]
    graph.load({"Person": people, "File": [{"name": "a", "data": "base64:AQID", "note": "n"}]})
    graph.mutate('query q() { delete Person where name = "p3" }')
    graph.optimize()
    before = graph.snapshot()
    soft = text.replace("tags: [String]?", "")
    graph.schema.apply(soft)
    files, shown = stored_fields(graph, "node:Person")
    assert files > shown
    hard = soft.replace("nick: String?", "").replace("note: String?", "")
    done = graph.schema.apply(hard, allow_data_loss=True)
    assert {step.get("mode") for step in done.steps} == {"hard"}
    for key in ("node:Person", "node:File"):
        files, shown = stored_fields(graph, key)
        assert files <= shown
    # Rows, their places in indexes, and earlier commits are as they were.
    again = og.open(graph.uri)
    found = again.query(
        'query q() { match { $p: Person { name: "p5" } } return { $p.place as v } }'
    )
    assert found.to_pylist() == [{"v": [1.0, 5.0]}]
    assert again.snapshot().counts == {"node:Person": 19, "node:File": 1}
    assert again.read_blob("File", "a", "data") == b"\x01\x02\x03"
    assert graph.diff(before).is_empty
    old = before.query('query q() { match { $p: Person { name: "p5" } } return { $p.nick as n } }')
    assert old.to_pylist() == [{"n": "secret"}]
    graph.mutate('query q() { update Person set { place: [2.0, 2.0] } where name = "p5" }')
    graph.optimize()
    assert graph.snapshot().counts["node:Person"] == 19


def test_a_dry_run_is_a_plan(graph: og.Graph) -> None:
    before = graph.snapshot().commit
    wanted = changed("nick: String?", "")
    done = graph.schema.apply(wanted, allow_data_loss=True, dry_run=True)
    assert (done.commit, graph.snapshot().commit) == (None, before)
    assert [(step["kind"], step["mode"]) for step in done.steps] == [("drop_property", "hard")]


def test_copies_that_say_something_else_are_named(graph: og.Graph) -> None:
    assert graph.schema.drift() == ()
    root = Path(graph.uri.removeprefix("file://"))
    (root / "_schema.pg").write_text("node Other { name: String @key }")
    (root / "__schema_state.json").unlink()
    found = graph.schema.drift()
    assert found == (
        "_schema.pg is not the schema that is in force",
        "__schema_state.json is missing",
    )
    assert graph.schema.plan(BEFORE).notes[0].startswith(found[0])
    assert graph.schema.show() == BEFORE, "nothing reads them"
    graph.schema.apply(changed("age: I32?", "age: I64?"))
    assert graph.schema.drift() == ()


def test_one_schema_that_was_written_in_two_ways_reads_alike_everywhere(graph: og.Graph) -> None:
    """Its text is what was stored first: a file that is never changed holds it."""
    texts = [f"{BEFORE}\nnode Team {{ name: String @key }} // {note}" for note in "ab"]
    graph.branches.create("draft")
    for branch, text in zip(("draft", "main"), texts, strict=True):
        graph.schema.apply(text, branch=branch)
    fresh = og.open(graph.uri)
    assert graph.schema.show() == fresh.schema.show() == texts[0]
    assert graph.schema.drift() == fresh.schema.drift() == ()


def meanwhile(graph: og.Graph, text: str, patch: pytest.MonkeyPatch) -> None:
    """Have another handle apply a schema before the next commit of this one."""
    commit = graph._repo.commit

    def late(prepared: Prepared) -> Published:
        patch.undo()
        og.open(graph.uri).schema.apply(text)
        return commit(prepared)

    patch.setattr(graph._repo, "commit", late)


@pytest.mark.parametrize("column", ["age: I32?", "nick: String?"])
def test_of_two_changes_at_once_the_second_is_refused(
    graph: og.Graph, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text is the whole schema, so the second would drop what the first one added."""
    first, second = (changed("nick: String?", f"nick: String?  extra{n}: I32?") for n in range(2))
    second = second.replace(column, column.replace("I32?", "I64?"))  # with a table, and without
    meanwhile(graph, first, monkeypatch)
    with pytest.raises(Conflict, match="put that change into your text") as caught:
        graph.schema.apply(second)
    assert caught.value.code is Code.SCHEMA_CHANGED
    assert graph.schema.show() == first
    graph.schema.apply(second)
    assert graph.schema.show() == second


def test_the_same_change_twice_at_once_is_one(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = changed("age: I32?", "age: I64?")
    meanwhile(graph, text, monkeypatch)
    assert graph.schema.apply(text).commit is None
    assert len([each for each in graph.commits.list() if each.kind == "schema_apply"]) == 1


def test_a_write_that_was_made_for_the_old_schema_is_refused(graph: og.Graph) -> None:
    repo = graph._repo
    base = repo.snapshot()
    table = repo.writable_table(base, "node:City")
    row = pa.table({"id": ["Rome"], "name": ["Rome"]}).cast(table.schema)
    staged = repo.tables.stage(table, inserts=row, uuid=repo.ids.new())
    assert staged is not None
    prepared = Prepared(
        base=base,
        commit=repo.new_commit(base, WriterKind.MUTATION),
        tables=(TableWrite(table_key="node:City", staged=(staged,)),),
    )
    og.open(graph.uri).schema.apply(changed("age: I32?", "age: I64?"))
    with pytest.raises(
        Conflict, match="the schema of branch 'main' has changed meanwhile"
    ) as caught:
        repo.commit(prepared)
    assert caught.value.code is Code.SCHEMA_CHANGED


def test_wider_types_and_defaults_of_every_kind(tmp_path: Path) -> None:
    """Lance evaluates most of them; a list or a date among them is written by us."""
    before = "node P { name: String @key  a: I32  b: U32  c: F32  d: U32  zZ: I32? }"
    wider = "name: String @key  a: I64  b: U64  c: F64  d: I64  zZ: I64?"
    graph = og.init(tmp_path / "k.omni", schema=before)
    graph.load({"P": [{"name": f"p{n}", "a": -n, "b": n, "c": n / 3, "d": n} for n in range(4)]})
    graph.mutate('query q() { delete P where name = "p1" }')
    simple = """s: String @default("it's")  t: Bool @default(true)  i: I32 @default(-3)
        j: I64 @default(9007199254740993)  u: U64 @default(18446744073709551615)"""
    graph.schema.apply(f"node P {{ {wider}  {simple} }}")
    other = 'f: F64 @default(0.1)  l: [I32] @default([1, 2])  e: Date @default(date("2024-01-01"))'
    graph.schema.apply(f"node P {{ {wider}  {simple}  {other} }}")
    text = 'query q() { match { $p: P { name: "p2" } } return { $p } }'
    (row,) = og.open(graph.uri).query(text).to_pylist()
    assert row["p"] == {
        "id": "p2",
        "name": "p2",
        "a": -2,
        "b": 2,
        "c": 0.6666666865348816,
        "d": 2,
        "zZ": None,
        "s": "it's",
        "t": True,
        "i": -3,
        "j": 9_007_199_254_740_993,
        "u": 18_446_744_073_709_551_615,
        "f": 0.1,
        "l": [1, 2],
        "e": date(2024, 1, 1),
    }
    graph._repo.table(graph._repo.snapshot().pin("node:P")).dataset.validate()
    graph.load({"P": [{"name": "new", "a": 1, "b": 1, "c": 1.0, "d": 1}]})
    graph.optimize()
    assert graph.snapshot().counts == {"node:P": 4}
