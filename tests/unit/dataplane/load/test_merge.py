"""Merging: known entities change in what the input names, others are new."""

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.dataplane.load import deletions
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.reading import read_inputs
from omnigraph.dataplane.load.request import Fill
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Item, Result
from omnigraph.errors import InvalidInput
from tests.graphs import audit
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    NOTE,
    OWNS,
    PERSON,
    RATES,
    WAYS,
    WORKS,
    Lab,
    Line,
    PicklingRunner,
    company,
    edge,
    note,
    person,
    table_of,
)

BYTES = "base64:" + base64.b64encode(b"\0bytes").decode()


@pytest.fixture(params=WAYS, ids=["whole", "divided", "elsewhere"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_new_and_known_entities(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", age=1, role="admin", email="a@x", bio=BYTES), person("Bo", age=2)])
    ids = lab.row_ids(PERSON)
    done = lab.load(
        [person("Bo", age=3), person("Cy", age=4), person("Ada", email=None)], "merge", **way
    )
    assert done.counts[PERSON] == type(done.counts[PERSON])(inserted=1, updated=2)
    people = lab.rows(PERSON)
    assert {name: (row["age"], row["role"]) for name, row in people.items()} == {
        "Ada": (1, "admin"),
        "Bo": (3, "guest"),
        "Cy": (4, "guest"),
    }
    # What is named null becomes null, what is not named stays, bytes included.
    assert (people["Ada"]["email"], people["Ada"]["bio"]) == (None, b"\0bytes")
    after = lab.row_ids(PERSON)
    assert {name: after[name] for name in ids} == ids
    audit(lab.repo)


def test_replacing_whole_rows(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", age=1, role="admin", email="a@x", bio=BYTES)])
    ids = lab.row_ids(PERSON)
    lab.load([person("Ada", score=2.5)], "merge", replace=True, **way)
    row = lab.rows(PERSON)["Ada"]
    assert (row["age"], row["role"], row["email"], row["bio"], row["score"]) == (
        None,
        "guest",
        None,
        None,
        2.5,
    )
    assert lab.row_ids(PERSON) == ids


def test_a_new_entity_needs_what_is_required(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([note("a", id="n", stars=5)])
    assert lab.refused([note(id="m", stars=1), note(id="n", stars=1)], "merge", **way) == [
        ("required", "m", ("text",), 1)
    ]
    lab.load([note(id="n", tag="t"), note("new", id="m")], "merge", **way)
    notes = lab.rows(NOTE)
    # Defaults are for new entities only.
    assert (notes["n"]["text"], notes["n"]["stars"], notes["n"]["tag"]) == ("a", 5, "t")
    assert notes["m"]["stars"] == 3


def test_a_required_property_cannot_be_named_null(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([note("a", id="n")])
    line = {"type": "Note", "data": {"id": "n", "text": None}}
    assert lab.refused([line], "merge", **way) == [("required", "n", ("text",), 1)]


def test_keys_occur_once_and_of_explicit_ids_the_last_counts(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([note("a", id="n", tag="t"), person("Ada")])
    lines = [
        note("b", id="n", stars=9),
        note("x", id="m"),
        note("y", id="m", stars=1),
        note(id="n", stars=4),
    ]
    done = lab.load(lines, "merge", **way)
    assert done.counts[NOTE] == type(done.counts[NOTE])(inserted=1, updated=1)
    notes = lab.rows(NOTE)
    # The last line alone counts: the first one's text is not taken over.
    assert (notes["n"]["text"], notes["n"]["stars"], notes["n"]["tag"]) == ("a", 4, "t")
    assert (notes["m"]["text"], notes["m"]["stars"]) == ("y", 1)
    twice = [person("Ada"), person("Bo"), person("Ada"), person("Bo")]
    assert lab.refused(twice, "merge", **way) == [
        ("key", "Ada", ("name",), 3),
        ("key", "Bo", ("name",), 4),
    ]


def test_keys_of_a_type_without_entities_occur_once_too(lab: Lab, way: dict[str, Any]) -> None:
    assert lab.refused([person("Ada"), person("Ada")], "merge", **way) == [
        ("key", "Ada", ("name",), 2)
    ]


def test_unique_values_are_released_and_taken(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", email="a@x"), person("Bo", email="b@x"), person("Cy", email="c@x")])
    # A chain in one load: everybody takes the value of the next, the last a new one.
    lab.load(
        [
            person("Ada", email="b@x"),
            person("Bo", email="c@x"),
            person("Cy", email="d@x"),
            person("Di", email="a@x"),
        ],
        "merge",
        **way,
    )
    emails = {name: row["email"] for name, row in lab.rows(PERSON).items()}
    assert emails == {"Ada": "b@x", "Bo": "c@x", "Cy": "d@x", "Di": "a@x"}
    found = lab.violations(
        [
            person("Ada", age=5),
            person("Bo", email="b@x"),
            person("Ed", email="c@x"),
            person("Fi", email="d@x"),
        ],
        "merge",
        **way,
    )
    assert [(v["id"], v["line"], v["message"]) for v in found] == [
        ("Bo", 2, "@unique violation on Person.email: value 'b@x' held by 'Ada' and 'Bo'"),
        ("Fi", 4, "@unique violation on Person.email: value 'd@x' held by 'Cy' and 'Fi'"),
    ]


def test_unique_values_of_several_columns(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", hall="a", seat=1), person("Bo", hall="a", seat=2)])
    assert lab.refused([person("Bo", seat=1)], "merge", **way) == [
        ("unique", "Bo", ("hall", "seat"), 1)
    ]
    lab.load([person("Bo", seat=1), person("Ada", seat=2)], "merge", **way)
    lab.load([person("Bo", seat=None), person("Cy", hall="a", seat=1)], "merge", **way)
    assert {n: r["seat"] for n, r in lab.rows(PERSON).items()} == {"Ada": 2, "Bo": None, "Cy": 1}


def test_edges_by_id_by_key_and_without(lab: Lab, way: dict[str, Any]) -> None:
    lab.load(
        [
            person("Ada"),
            person("Bo"),
            company("Acme"),
            edge("Knows", "Ada", "Bo", id="k", note="x"),
            edge("Rates", "Ada", "Acme", stars=1),
        ]
    )
    ids = lab.row_ids(KNOWS), lab.row_ids(RATES)
    done = lab.load(
        [
            edge("Knows", "Ada", "Bo"),
            edge("Knows", "Ada", "Bo", id="k", since="2024-01-01"),
            edge("Rates", "Ada", "Acme", stars=2),
            edge("Rates", "Bo", "Acme", stars=3),
        ],
        "merge",
        **way,
    )
    assert (done.counts[KNOWS].inserted, done.counts[KNOWS].updated) == (1, 1)
    assert (done.counts[RATES].inserted, done.counts[RATES].updated) == (1, 1)
    assert lab.rows(KNOWS)["k"]["note"] == "x"
    assert lab.rows(RATES)['["Ada","Acme"]']["stars"] == 2
    assert lab.row_ids(KNOWS)["k"] == ids[0]["k"]
    assert lab.row_ids(RATES)['["Ada","Acme"]'] == ids[1]['["Ada","Acme"]']


def test_moving_an_edge_checks_both_sources(lab: Lab, way: dict[str, Any]) -> None:
    lab.load(
        [
            company("A"),
            company("B"),
            company("C"),
            edge("Owns", "A", "B", id="o"),
            edge("Owns", "B", "C", id="p"),
        ]
    )
    # A would be left without the one that it must have.
    found = lab.violations(
        [edge("Owns", "B", "C", id="p", share=0.5), edge("Owns", "C", "B", id="o")], "merge", **way
    )
    assert [(v["rule"], v["id"], v["line"], v["message"]) for v in found] == [
        ("cardinality", "A", 2, "@card violation on edge Owns: source 'A' has 0 edges (min 1)")
    ]
    lab.load([edge("Owns", "C", "B", id="o"), edge("Owns", "A", "C", id="q")], "merge", **way)
    assert lab.edges(OWNS) == [("A", "C"), ("B", "C"), ("C", "B")]


def test_moved_edges_count_where_they_come_to(lab: Lab, way: dict[str, Any]) -> None:
    lab.load(
        [
            person("Ada"),
            person("Bo"),
            company("Acme"),
            edge("WorksAt", "Ada", "Acme", id="1"),
            edge("WorksAt", "Ada", "Acme", id="2"),
            edge("WorksAt", "Bo", "Acme", id="3"),
        ]
    )
    assert lab.refused([edge("WorksAt", "Ada", "Acme", id="3")], "merge", **way) == [
        ("cardinality", "Ada", ("src",), 1)
    ]
    # One comes and one goes; and one is mentioned twice, which is still one.
    lab.load(
        [
            edge("WorksAt", "Ada", "Acme", id="3"),
            edge("WorksAt", "Bo", "Acme", id="1"),
            edge("WorksAt", "Ada", "Acme", id="2", title="x"),
            edge("WorksAt", "Ada", "Acme", id="2", title="y"),
        ],
        "merge",
        **way,
    )
    assert {k: r["src"] for k, r in lab.rows(WORKS).items()} == {"1": "Bo", "2": "Ada", "3": "Ada"}


def test_ends_of_moved_edges_must_exist(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada"), edge("Knows", "Ada", "Ada", id="k")])
    assert lab.refused([edge("Knows", "Ada", "Bo", id="k")], "merge", **way) == [
        ("endpoint", "k", ("dst",), 1)
    ]
    lab.load([edge("Knows", "Ada", "Bo", id="k"), person("Bo")], "merge", **way)
    assert lab.edges(KNOWS) == [("Ada", "Bo")]


def test_rules_hold_for_the_final_image(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", age=1)])
    broken = '{"type": "Person", "data": {'
    lines: list[Line | str] = [person("Ada", age=151), person("Bo", role="boss"), broken]
    assert [each[:3] for each in lab.refused(lines, "merge", **way)] == [
        ("range", "Ada", ("age",)),
        ("enum", "Bo", ("role",)),
        ("syntax", None, ()),
    ]


def test_tables_that_do_not_change_stay(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada"), company("Acme")])
    before = lab.versions()
    lab.load([person("Ada", age=2)], "merge", **way)
    moved = {key for key, version in lab.versions().items() if version != before[key]}
    assert moved == {PERSON}


def test_merging_twice_is_stable(lab: Lab, way: dict[str, Any]) -> None:
    lines = [person(f"p{n}", age=n) for n in range(20)]
    lab.load(lines, "merge", **way)
    first = lab.rows(PERSON)
    done = lab.load(lines, "merge", **way)
    assert (done.counts[PERSON].inserted, done.counts[PERSON].updated) == (0, 20)
    assert lab.rows(PERSON) == first


def test_columns_name_what_they_have(lab: Lab) -> None:
    lab.load([person("Ada", age=1, score=1.5), person("Bo", age=2)])
    given = table_of("node", "Person", [{"name": "Ada", "score": None}, {"name": "Bo", "score": 2}])
    lab.run(lab.request(given, mode="merge"))
    assert {n: (r["age"], r["score"]) for n, r in lab.rows(PERSON).items()} == {
        "Ada": (1, None),
        "Bo": (2, 2.0),
    }


def test_replacing_is_for_merges_and_cascading_for_overwrites(lab: Lab) -> None:
    given = lab.file([company("Acme")])
    for mode, terms in (
        ("append", {"replace": True}),
        ("overwrite", {"replace": True}),
        ("append", {"cascade": True}),
        ("merge", {"cascade": True}),
    ):
        with pytest.raises(InvalidInput):
            lab.run(lab.request(given, mode=mode, **terms))
    assert not lab.rows(COMPANY)


def test_it_does_not_matter_how_much_is_written_at_once(lab: Lab) -> None:
    """With a small measure, everything is spilled, read back, cut and written piece by piece."""
    blobs = {f"p{number}": bytes([number]) * (40 * number) for number in range(12)}
    lab.load(
        [
            person(name, age=1, bio=f"base64:{base64.b64encode(data).decode()}")
            for name, data in blobs.items()
        ]
    )
    ids = lab.row_ids(PERSON)
    lines = [
        *(person(name, age=2) for name in blobs),
        person("new", bio=BYTES),
        *(note(f"{number}", id=f"n{number}") for number in range(5)),
    ]
    request = lab.request(lab.file(lines), mode="merge")
    loader, monitor = Loader(lab.repo), Monitor("load", "inprocess", "a test", lab.repo.clock)
    base = lab.repo.snapshot()
    plan = replace(loader.plan(request, base, monitor, is_remote=False), fragment_bytes=100)
    receipts = read_inputs(request, plan, InProcessRunner(1), monitor)
    loader.finish(request, plan, receipts, InProcessRunner(1), monitor, base)
    plan.staging.remove()
    people = lab.rows(PERSON)
    assert {name: (people[name]["age"], people[name]["bio"]) for name in blobs} == {
        name: (2, data) for name, data in blobs.items()
    }
    assert (people["new"]["bio"], len(lab.rows(NOTE))) == (b"\0bytes", 5)
    after = lab.row_ids(PERSON)
    assert {name: after[name] for name in ids} == ids
    fragments = lab.repo.table(lab.repo.snapshot().pin(PERSON)).fragment_ids()
    assert len(fragments) > 3
    audit(lab.repo)


class Weighing(PicklingRunner):
    """Counts the bytes of the receipts of each stage, and its tasks."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.tasks: dict[str, int] = {}

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        self.tasks[stage] = len(items)
        for number, result in super().run(stage, task, items):
            self.bytes[stage] = self.bytes.get(stage, 0) + len(pickle.dumps(result))
            yield number, result


def test_a_driver_gets_receipts_whatever_the_number_of_rows(lab: Lab) -> None:
    """Rows come in an order of their own, so each fragment lists identities from everywhere."""
    count = 20_000
    names = [f"c{number:05d}" for number in range(count)]
    lab.load([company(name, size=1) for name in names], split_bytes=100_000)
    ids = lab.row_ids(COMPANY)
    weighing = Weighing()
    shuffled = [names[number * 7919 % count] for number in range(count)]
    done = lab.load(
        [company(name, size=2) for name in shuffled[:-3]],
        "merge",
        runner=weighing,
        split_bytes=300_000,
        driver_keys=0,
    )
    assert done.counts[COMPANY].updated == count - 3
    assert weighing.bytes["write"] < 4 * count
    assert weighing.bytes["delete"] < 1_000
    assert lab.row_ids(COMPANY) == ids
    left = [row["name"] for row in lab.rows(COMPANY).values() if row["size"] == 1]
    assert sorted(left) == sorted(shuffled[-3:])
    audit(lab.repo)


def test_fragments_are_divided_among_the_tasks_that_write_deletion_files(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number:03d}" for number in range(400)]
    for start in range(0, 400, 100):
        lab.load([company(name) for name in names[start : start + 100]])
    monkeypatch.setattr("omnigraph.dataplane.load.stages.shares_of", lambda t: t.fragment_ids())
    weighing = Weighing()
    lines = [company(name, size=2) for name in names[::2]]
    lab.load(lines, "merge", runner=weighing, split_bytes=1_000, driver_keys=0)
    assert (weighing.tasks["write"] > 4, weighing.tasks["delete"]) == (True, 4)
    assert sum(row["size"] == 2 for row in lab.rows(COMPANY).values()) == 200
    audit(lab.repo)


def test_shares_are_of_about_a_size() -> None:
    class Fragments:
        def fragment_rows(self) -> tuple[tuple[int, int], ...]:
            return ((0, 3), (2, 3), (5, 9), (6, 1), (7, 1), (8, 4))

    table: Any = Fragments()
    assert deletions.shares_of(table, 6) == (0, 5, 6)
    assert deletions.shares_of(table, 1) == (0, 2, 5, 6, 7, 8)
    assert deletions.shares_of(table, 100) == (0,)


def test_a_known_entity_is_named_by_its_id_alone(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", age=1, email="a@x"), person("Bo", age=2)])
    line = {"type": "Person", "data": {"id": "Ada", "score": 0.5}}
    done = lab.load([line], "merge", **way)
    assert done.counts[PERSON] == type(done.counts[PERSON])(updated=1)
    row = lab.rows(PERSON)["Ada"]
    assert (row["name"], row["age"], row["email"], row["score"]) == ("Ada", 1, "a@x", 0.5)
    audit(lab.repo)


def test_an_unknown_entity_needs_its_key(lab: Lab, way: dict[str, Any]) -> None:
    line = {"type": "Person", "data": {"id": "Ada", "score": 0.5}}
    for mode in ("merge", "append"):
        assert lab.refused([line], mode, **way) == [("required", "Ada", ("name",), 1)]


def test_only_known_entities_change_when_that_is_asked_for(lab: Lab, way: dict[str, Any]) -> None:
    lab.load([person("Ada", age=1)])
    lines = [person("Ada", score=0.5), person("Bo", score=0.7)]
    lines.append({"type": "Person", "data": {"id": "Cy", "score": 0.9}})
    done = lab.load(lines, "merge", fill=Fill.KNOWN, **way)
    assert done.counts[PERSON] == type(done.counts[PERSON])(updated=1)
    assert {name: row["score"] for name, row in lab.rows(PERSON).items()} == {"Ada": 0.5}
    audit(lab.repo)
