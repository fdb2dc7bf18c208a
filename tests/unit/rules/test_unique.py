from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang import compile_schema
from omnigraph.rules.unique import judge_ids, judge_unique, uniques
from omnigraph.rules.violation import Rule, Violation, Violations

CATALOG = compile_schema("""
node T {
  k: String @key  email: String? @unique  a: String?  b: F64?  day: Date? @unique
  @unique(a, b)
}
edge E: T -> T { role: String  @unique(src, role) }
""")
T, E = CATALOG.node_by_name["T"], CATALOG.edge_by_name["E"]
PAIR = ("a", "b")


def _rows(*rows: tuple[Any, ...], columns: tuple[str, ...] = PAIR) -> pa.Table:
    names = ("id", *columns)
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    schema = table_schema(E if "src" in columns else T)
    return pa.Table.from_pylist(dicts, schema=pa.schema([schema.field(name) for name in names]))


def _judge(
    incoming: pa.Table,
    committed: pa.Table | None = None,
    removed: tuple[str, ...] = (),
    columns: tuple[str, ...] = PAIR,
) -> tuple[Violation, ...]:
    out = Violations()
    judge_unique(
        E if "src" in columns else T,
        columns,
        incoming,
        out,
        committed=() if committed is None else committed.to_batches(max_chunksize=1),
        removed=removed,
    )
    return out.items


def test_two_incoming_rows_with_one_value() -> None:
    rows = _rows(("y", "v"), ("x", "v"), ("z", "w"), columns=("email",))
    (found,) = _judge(rows, columns=("email",))
    assert found.message == "@unique violation on T.email: value 'v' held by 'y' and 'x'"
    assert (found.rule, found.id, found.value) == (Rule.UNIQUE, "x", "v")
    assert found.properties == ("email",)


def test_a_tuple_that_a_committed_row_holds() -> None:
    (found,) = _judge(_rows(("x", "v", 1.5)), _rows(("z", "v", 1.5), ("y", "v", 1.5)))
    assert found.message == "@unique violation on T.(a, b): value '(v, 1.5)' held by 'y' and 'x'"
    assert found.value == ["v", 1.5]
    assert found.properties == ("a", "b")


def test_everybody_but_the_first_holder_is_reported() -> None:
    incoming = _rows(("c", "v", 1.0), ("a", "v", 1.0), ("b", "v", 1.0))
    assert [item.id for item in _judge(incoming)] == ["a", "b"]
    assert [item.id for item in _judge(incoming, _rows(("z", "v", 1.0)))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "row", [("x", None, 1.0), ("x", "v", None), ("x", "w", 1.0), ("x", "v", 2.0), ("y", "v", 1.0)]
)
def test_what_does_not_collide(row: tuple[Any, ...]) -> None:
    assert _judge(_rows(row), _rows(("y", "v", 1.0), ("z", None, 1.0), ("w", "v", None))) == ()


def test_values_freed_by_the_same_change_can_be_taken() -> None:
    committed = _rows(("x", "v", 1.0), ("y", "w", 1.0))
    assert _judge(_rows(("x", "w", 1.0), ("y", "v", 1.0)), committed) == ()
    assert _judge(_rows(("z", "v", 1.0)), committed, ("x",)) == ()
    assert len(_judge(_rows(("z", "v", 1.0)), committed, ("y",))) == 1


def test_tuples_are_compared_part_by_part() -> None:
    columns = ("src", "role")
    rows = _rows(("e", "a", "b|c"), ("f", "a|b", "c"), ("g", "ab", "c"), columns=columns)
    assert _judge(rows, columns=columns) == ()
    (found,) = _judge(rows, _rows(("h", "a|b", "c"), columns=columns), columns=columns)
    assert (found.kind, found.type_name, found.id) == ("edge", "E", "f")


def test_the_two_zeros_are_one_value() -> None:
    assert len(_judge(_rows(("x", "v", 0.0), ("y", "v", -0.0)))) == 1
    assert len(_judge(_rows(("x", "v", 0.0)), _rows(("y", "v", -0.0)))) == 1


def test_a_date_is_shown_as_a_date() -> None:
    columns = ("day",)
    (found,) = _judge(_rows(("x", 0), ("y", 0), columns=columns), columns=columns)
    assert found.value == "1970-01-01"


def test_a_bool_is_written_as_in_the_languages() -> None:
    entity = compile_schema("node B { a: Bool  b: Date  @unique(a, b) }").node_by_name["B"]
    day = pa.array([1, 1], pa.int32()).cast(pa.date32())
    out = Violations()
    judge_unique(entity, ("a", "b"), pa.table({"id": ["x", "y"], "a": [True] * 2, "b": day}), out)
    assert "value '(true, 1970-01-02)'" in out.items[0].message


def test_rows_without_an_id_are_entities_of_their_own() -> None:
    schema = pa.schema([("id", pa.string()), ("email", pa.string())])
    rows = pa.Table.from_pylist([{"id": None, "email": "v"}] * 2, schema=schema)
    (found,) = _judge(rows, columns=("email",))
    assert "held by a new entity and a new entity" in found.message


def test_an_entity_does_not_collide_with_itself() -> None:
    assert _judge(_rows(("x", "v", 1.0), ("x", "v", 1.0)), _rows(("x", "v", 1.0))) == ()


def test_columns_may_be_stored_in_another_form() -> None:
    stored = pa.table(
        {
            "email": pa.array(["v"], pa.large_string()).dictionary_encode(),
            "other": [1],
            "id": pa.array(["y"], pa.large_string()),
        }
    )
    assert len(_judge(_rows(("x", "v"), columns=("email",)), stored, columns=("email",))) == 1


def test_a_rule_over_a_blob_that_an_early_graph_has_is_not_judged() -> None:
    entity = compile_schema("node T { a: String  b: Blob  @unique(a) }").node_by_name["T"]
    assert uniques(entity) == (("a",),)
    early = type(entity)(
        name="T", id="t", properties=entity.properties, uniques=(("a",), ("a", "b"))
    )
    assert uniques(early) == (("a",),)


def test_the_place_in_the_input_is_that_of_the_later_row() -> None:
    out = Violations()
    rows = _rows(("x", None, 1.0), ("y", "v", 1.0), ("x", None, 1.0), ("z", "v", 1.0))
    judge_unique(T, PAIR, rows, out, origin=lambda row: ("f", row + 1))
    assert [(item.id, item.line) for item in out.items] == [("z", 4)]


_VALUE = st.tuples(
    st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.sampled_from([0.0, -0.0, 1.0])
)
_ROWS = st.dictionaries(st.sampled_from("pqrstuvw"), _VALUE, max_size=6)


@given(_ROWS, _ROWS, st.sets(st.sampled_from("pqrstuvw")))
def test_collisions_are_those_that_plain_python_finds(
    incoming: dict[str, tuple[Any, Any]],
    committed: dict[str, tuple[Any, Any]],
    removed: set[str],
) -> None:
    stay = {k: v for k, v in sorted(committed.items()) if k not in incoming and k not in removed}
    expected: set[tuple[str, str]] = set()
    held: dict[tuple[Any, Any], str] = {}
    for id_, value in stay.items():
        held.setdefault(value, id_)
    for id_, value in incoming.items():
        if None not in value and held.setdefault(value, id_) != id_:
            expected.add((id_, f"held by '{held[value]}' and '{id_}'"))
    found = _judge(
        _rows(*((id_, *value) for id_, value in incoming.items())),
        _rows(*((id_, *value) for id_, value in committed.items())),
        tuple(removed),
    )
    assert {
        (str(item.id), item.message[item.message.index("held") :]) for item in found
    } == expected
    assert len(found) == len(expected)


# -- ids -------------------------------------------------------------------------------------------


def _judge_ids(ids: list[str | None], committed: list[str] | None = None) -> list[tuple[Any, ...]]:
    out = Violations()
    judge_ids(
        T,
        pa.chunked_array([pa.array(ids[:2], pa.string()), pa.array(ids[2:], pa.string())]),
        out,
        committed=None if committed is None else pa.array(committed, pa.string()),
        origin=lambda row: ("f", row),
    )
    assert all((item.rule, item.properties) == (Rule.KEY, ("k",)) for item in out.items)
    return [(item.line, item.id, item.message.rsplit("' ", 1)[1]) for item in out.items]


def test_an_id_occurs_once_in_an_input() -> None:
    again = "occurs more than once in the input"
    assert _judge_ids(["a", "b", "a", None, "a", None]) == [(2, "a", again), (4, "a", again)]


def test_an_input_that_only_adds_does_not_name_what_exists() -> None:
    assert _judge_ids(["a", "b", "a"], ["b", "c"]) == [
        (1, "b", "exists already"),
        (2, "a", "occurs more than once in the input"),
    ]
    assert _judge_ids(["a", "b"], []) == []


def test_without_a_key_the_id_itself_is_named() -> None:
    out = Violations()
    judge_ids(E, pa.array(["e", "e"]), out)
    assert out.items[0].message.startswith("@key violation on E.id: 'e'")


@given(st.lists(st.none() | st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_ids_are_judged_as_plain_python_would(ids: list[str | None], committed: set[str]) -> None:
    expected = [
        row
        for row, id_ in enumerate(ids)
        if id_ is not None and (id_ in ids[:row] or id_ in committed)
    ]
    assert [found[0] for found in _judge_ids(ids, sorted(committed))] == expected
