"""Files of resolutions: written by a dry run, completed by somebody, applied by a merge."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  born: Date?
  photo: Blob?
  email: String?
  @unique(email)
  @unique(born)
  @range(age, 0..150)
}
node Note { title: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge Wrote: Person -> Note @card(0..2)
edge Lives: Person -> Note @card(1..3)
"""
START = """
query start() {
  insert Person { name: "Ada", age: 36, city: "London", photo: "base64:aGVsbG8=" }
  insert Person { name: "Bo", age: 41, email: "bo@x", born: date("2001-02-03") }
  insert Person { name: "Cy" }
  insert Person { name: "Di", age: 4 }
  insert Note { title: "n1" }
  insert Note { title: "n2" }
  insert Note { title: "n3" }
  insert Lives { from: "Ada", to: "n1" }
  insert Lives { from: "Bo", to: "n1" }
  insert Lives { from: "Cy", to: "n1" }
  insert Lives { from: "Di", to: "n1" }
}
"""
PEOPLE = "query q() { match { $p: Person } return { $p } }"
Line = dict[str, Any]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.mutate(START)
        graph.branches.create("draft")
        yield graph


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "choices.jsonl"


def change(graph: og.Graph, branch: str, text: str) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def people(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    return {row["p"]["id"]: row["p"] for row in graph.query(PEOPLE, branch=branch)}


def edges(graph: og.Graph, name: str, branch: str = "main") -> set[tuple[str, str]]:
    text = f"query q() {{ match {{ $a: Person  $a $k: {name} $b }} return {{ $k }} }}"
    found = [row["k"] for row in graph.query(text, branch=branch)]
    return {(item["from"], item["to"]) for item in found}


def lines_of(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def complete(file: Path, choose: Callable[[Line], str | Line]) -> None:
    """Fill in the choices that are open."""
    found = lines_of(file)
    for line in found:
        if line["choice"] is None:
            choice = choose(line)
            line["choice"] = choice if isinstance(choice, str) else "value"
            line["value"] = None if isinstance(choice, str) else choice
    file.write_text("".join(json.dumps(line) + "\n" for line in found))


CLASHES = {
    "draft": """
        update Person set { age: 1, city: "Rome" } where name = "Ada"
        insert Person { name: "New", age: 1 }
        update Person set { age: 5 } where name = "Di"
        insert Wrote { from: "Bo", to: "n1" }
        insert Wrote { from: "Bo", to: "n2" }
        insert Person { name: "Ed", email: "same" }
        insert Lives { from: "Ed", to: "n2" }
        insert Lives { from: "New", to: "n2" }
    """,
    "main": """
        update Person set { age: 2 } where name = "Ada"
        insert Person { name: "New", age: 2 }
        update Person set { city: "Oslo" } where name = "Cy"
        insert Wrote { from: "Bo", to: "n3" }
        update Person set { email: "same" } where name = "Bo"
        insert Lives { from: "New", to: "n2" }
    """,
}


def clash(graph: og.Graph) -> None:
    for branch, text in CLASHES.items():
        change(graph, branch, text)
    change(graph, "draft", 'delete Person where name = "Cy"')
    change(graph, "main", 'delete Person where name = "Di"')


def test_a_file_is_written_completed_and_applied(graph: og.Graph, file: Path) -> None:
    clash(graph)
    found = graph.branches.merge("draft", dry_run=True)
    assert found.write_resolutions(file) == len(found.conflicts) == 6
    lines = lines_of(file)
    assert [(line["kind"], line["entity_id"], line["choice"]) for line in lines] == [
        ("delete_vs_update", "Cy", None),
        ("delete_vs_update", "Di", None),
        ("divergent_update", "Ada", None),
        ("divergent_insert", "New", None),
        ("unique_violation", "Ed", None),
        ("cardinality_violation", "Bo", None),
    ]
    assert [lines[2][side]["age"] for side in ("base", "ours", "theirs")] == [36, 2, 1]
    assert lines[4]["theirs"]["email"] == "same"
    assert len(lines[5]["theirs"]["inserted"]) == 2
    table = found.conflict_table().splitlines()
    assert table[0].split() == [
        "conflict",
        "entity",
        "property",
        "base",
        "ours",
        "theirs",
        "choice",
    ]
    (ada,) = [row.split() for row in table if "'Ada'" in row]
    assert ada == ["divergent_update", "Person", "'Ada'", "age", "36", "2", "1"]
    choices: dict[str, str | Line] = {
        "Ada": {"age": 7},
        "New": "theirs",
        "Cy": "ours",
        "Di": "base",
        "Ed": {"email": "other"},
        "Bo": "theirs",
    }
    complete(file, lambda line: choices[line["entity_id"]])
    head = graph.snapshot().commit
    planned = graph.branches.merge("draft", dry_run=True, resolve=file)
    # Cy stays, without the edges that were deleted with it, and so does Di.
    assert [item.id for item in planned.conflicts] == ["Cy", "Di"]
    assert {item.kind.value for item in planned.conflicts} == {"cardinality_violation"}
    assert len(planned.settled) == 6
    with pytest.raises(og.errors.Conflict, match="source 'Cy' has 0 edges"):
        graph.branches.merge("draft", resolve=str(file))
    assert planned.write_resolutions(file) == 2
    assert [line["choice"] for line in lines_of(file)].count(None) == 2
    complete(file, lambda line: "ours" if line["entity_id"] == "Cy" else "theirs")
    assert graph.snapshot().commit == head
    done = graph.branches.merge("draft", resolve=str(file))
    assert done.outcome == "merged"
    state = people(graph)
    assert (state["Ada"]["age"], state["Ada"]["city"]) == (7, "Rome")
    assert (state["New"]["age"], state["Cy"]["city"]) == (1, "Oslo")
    assert (state["Di"]["age"], state["Ed"]["email"], state["Bo"]["email"]) == (4, "other", "same")
    assert graph.read_blob("Person", "Ada", "photo") == b"hello"
    assert edges(graph, "wrote") == {("Bo", "n1"), ("Bo", "n2")}
    assert {one for one, _ in edges(graph, "lives")} == set(state)
    assert graph.branches.merge("draft").outcome == "already_up_to_date"


def edited(**fields: Any) -> Callable[[list[Line]], list[Line]]:
    """Change some fields of the second line."""
    return lambda lines: [lines[0], lines[1] | fields, *lines[2:]]


REFUSED: dict[str, tuple[Callable[[list[Line]], list[Any]], str]] = {
    "no JSON": (lambda lines: [lines[0], "{"], "line 2: this is not a line of JSON"),
    "no conflict": (lambda lines: [lines[0], {"choice": "ours"}], "line 2: a conflict has the"),
    "bad id": (edited(entity_id=[1]), "line 2: `properties` is a list"),
    "no choice": (edited(choice=None), "line 2: Person 'Bo' has no choice; it is one of: ours"),
    "unknown choice": (edited(choice="mine"), "line 2: the choice is 'ours', 'theirs'"),
    "value without choice": (edited(value={"age": 1}), "line 2: a value is given, but"),
    "choice without value": (edited(choice="value"), "line 2: with the choice 'value'"),
    "value of another property": (
        edited(choice="value", value={"city": "x"}),
        "line 2: Person 'Bo': 'city' is no property that it is about, but 'age'",
    ),
    "empty value": (edited(choice="value", value={}), "line 2: Person 'Bo': a value is given for"),
    "value of another type": (
        edited(choice="value", value={"age": "old"}),
        "line 2: Person 'Bo': `age`: expected I32",
    ),
    "changed since": (
        lambda lines: [lines[0], lines[1] | {"ours": lines[1]["ours"] | {"age": 99}}],
        "line 2: Person 'Bo': the values have changed since",
    ),
    "surplus": (
        lambda lines: [*lines, lines[1] | {"entity_id": "Zed"}],
        "line 3: there is no divergent_update of Person 'Zed'",
    ),
    "twice": (lambda lines: [*lines, lines[1]], "line 3: the conflict of line 2"),
}


def test_a_file_that_does_not_fit_is_refused_by_line(graph: og.Graph, file: Path) -> None:
    for branch, age in (("draft", 1), ("main", 2)):
        change(graph, branch, f'update Person set {{ age: {age} }} where name = "Ada"')
        change(graph, branch, f'update Person set {{ age: {age} }} where name = "Bo"')
    graph.branches.merge("draft", dry_run=True, resolve="ours").write_resolutions(file)
    lines, head = lines_of(file), graph.snapshot().commit
    assert [line["choice"] for line in lines] == ["ours", "ours"]
    for what, (edit, message) in REFUSED.items():
        texts = (item if isinstance(item, str) else json.dumps(item) for item in edit(lines))
        file.write_text("".join(f"{text}\n" for text in texts))
        with pytest.raises(og.errors.InvalidInput) as failure:
            graph.branches.merge("draft", resolve=file)
        assert message in str(failure.value), what
        assert graph.snapshot().commit == head, what
    file.write_text(json.dumps(lines[0]) + "\n\n")
    with pytest.raises(og.errors.Conflict) as missing:
        graph.branches.merge("draft", resolve=file)
    assert [item["entity_id"] for item in missing.value.conflicts] == ["Bo"]
    with pytest.raises(og.errors.NotFound, match="No such file"):
        graph.branches.merge("draft", resolve="nothing.jsonl")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(og.errors.InvalidInput, match="UTF-8"):
        graph.branches.merge("draft", resolve=file)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    change(graph, "main", 'update Person set { age: 3 } where name = "Ada"')
    with pytest.raises(og.errors.InvalidInput, match="line 1: Person 'Ada': the values have"):
        graph.branches.merge("draft", resolve=file)


def test_values_are_judged_like_new_ones(graph: og.Graph) -> None:
    for branch, born in (("draft", "2001-01-01"), ("main", "2002-02-02")):
        text = f'update Person set {{ age: 1, born: date("{born}") }} where name = "Ada"'
        change(graph, branch, text)
    change(graph, "main", 'update Person set { age: 2 } where name = "Ada"')
    values: Any = {"age": 200, "born": "2001-02-03"}
    bad: Any = lambda item: values if "divergent" in item.kind else None  # noqa: E731
    found = graph.branches.merge("draft", dry_run=True, resolve=bad)
    assert sorted((item.kind.value, item.properties) for item in found.conflicts) == [
        ("unique_violation", ("born",)),
        ("value_constraint_violation", ("age",)),
    ]
    first = {"age": 150, "born": "2001-02-03"}
    again = {"born": None}
    answers: Any = lambda item: first if "divergent" in item.kind else again  # noqa: E731
    done = graph.branches.merge("draft", resolve=answers)
    assert [item.kind.value for item, _ in done.settled] == ["divergent_update", "unique_violation"]
    assert (people(graph)["Ada"]["age"], people(graph)["Ada"]["born"]) == (150, None)
    with pytest.raises(og.errors.InvalidInput, match="a dictionary of values"):
        graph.branches.revert(graph.commits.list()[1].id, resolve=lambda _: 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_broken_rules_are_settled_by_a_side(graph: og.Graph, side: Any) -> None:
    """The mirrored merge, settled by the other side, gives the same."""
    change(graph, "draft", 'insert Wrote { from: "Ada", to: "n1" }')
    change(graph, "draft", 'insert Wrote { from: "Ada", to: "n2" }')
    change(graph, "draft", 'insert Person { name: "Ed" } insert Lives { from: "Ed", to: "n1" }')
    change(graph, "draft", 'insert Knows { from: "Ed", to: "Cy" }')
    change(graph, "main", 'insert Wrote { from: "Ada", to: "n3" }')
    change(graph, "main", 'delete Person where name = "Cy"')
    graph.branches.create("mirror", "draft")
    other: Any = "theirs" if side == "ours" else "ours"
    graph.branches.create("before")
    graph.branches.merge("draft", resolve=side)
    graph.branches.merge("before", into="mirror", resolve=other)
    assert graph.diff("main", "mirror").is_empty
    written = {("Ada", "n3")} if side == "ours" else {("Ada", "n1"), ("Ada", "n2")}
    assert edges(graph, "wrote") == written
    assert ("Cy" in people(graph)) == (side == "theirs")
    assert (("Ed", "Cy") in edges(graph, "knows")) == (side == "theirs")
    assert {one for one, _ in edges(graph, "lives")} == set(people(graph)), "each lives somewhere"


def test_a_choice_can_bring_up_another_conflict(graph: og.Graph, file: Path) -> None:
    """An insert that is not taken leaves its edges without an end."""
    change(graph, "draft", 'insert Person { name: "Ed", email: "same" }')
    change(graph, "draft", 'insert Lives { from: "Ed", to: "n1" }')
    change(graph, "draft", 'insert Knows { from: "Ada", to: "Ed" }')
    change(graph, "main", 'update Person set { email: "same" } where name = "Cy"')
    kinds: list[list[str]] = []
    while graph.branches.merge("draft", dry_run=True, resolve=file if kinds else None).conflicts:
        found = graph.branches.merge("draft", dry_run=True, resolve=file if kinds else None)
        kinds.append([item.kind.value for item in found.conflicts])
        found.write_resolutions(file)
        complete(file, lambda _: "ours")
    assert kinds == [["unique_violation"], ["orphan_edge", "orphan_edge"]]
    graph.branches.merge("draft", resolve=file)
    assert "Ed" not in people(graph)
    assert graph.diff("main~1", "main").is_empty


def test_an_edge_that_gets_a_value_needs_its_end_once(tmp_path: Path, file: Path) -> None:
    schema = "node Person { name: String @key }\nedge Likes: Person -> Person { weight: I32? }"
    edge = {"id": "k", "from": "Ada", "to": "Bo"}
    with og.init(str(tmp_path / "ends.omni"), schema=schema) as graph:
        graph.load({"Person": [{"name": "Ada"}, {"name": "Bo"}], "Likes": [edge]})
        graph.branches.create("draft")
        graph.mutate('query q() { delete Person where name = "Bo" }', branch="draft")
        graph.load({"Likes": [{**edge, "weight": 1}]}, mode="merge")
        graph.branches.merge("draft", dry_run=True).write_resolutions(file)
        (line,) = map(json.loads, file.read_text().splitlines())
        file.write_text(json.dumps(line | {"choice": "value", "value": {"weight": 2}}))
        found = graph.branches.merge("draft", dry_run=True, resolve=file)
        assert [item.kind.value for item in found.conflicts] == ["orphan_edge"]
        found.write_resolutions(file)
        chosen, asked = (json.loads(line) for line in file.read_text().splitlines())
        lines = (chosen, asked | {"choice": "ours"})
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        graph.branches.merge("draft", resolve=file)
        rows = graph.query("query q() { match { $a $k: likes $b } return { $k.weight as weight } }")
        assert rows.to_pylist() == [{"weight": 2}]
