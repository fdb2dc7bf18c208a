"""The planner beyond the corpus: the shape of steps, and how a refusal is raised."""

from __future__ import annotations

import pytest

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.migrate import plan
from omnigraph.lang.catalog.steps import MIGRATION_CODES
from omnigraph.lang.schema import compile_schema

OLD = compile_schema("node A { a: I32  b: String @key } node B {} edge E: A -> B")
NEW = compile_schema(
    'node C @rename_from("A") { x: I64 @rename_from("a")  b: String @key  n: I32? } node B {}'
)


def test_a_plan_as_json() -> None:
    node = {"type_kind": "node", "type_id": OLD.node_by_name["A"].id}
    cost = {"code": None, "tier": "safe", "touches_data": "none"}
    assert plan(OLD, NEW).to_json() == {
        "supported": True,
        "steps": [
            {**node, **cost, "kind": "rename_type", "name": "C", "from": "A", "to": "C"},
            {
                **node,
                **cost,
                "kind": "rename_property",
                "type_name": "C",
                "property_name": "x",
                "property_id": 1,
                "from": "a",
                "to": "x",
            },
            {
                **node,
                **cost,
                "kind": "add_property",
                "type_name": "C",
                "property_name": "n",
                "property_id": 3,
                "property_type": "I32?",
                "fill": None,
            },
            {
                **node,
                **cost,
                "kind": "change_type",
                "type_name": "C",
                "property_name": "x",
                "property_id": 1,
                "from": "I32",
                "to": "I64",
                "touches_data": "rewrite",
            },
            {
                **cost,
                "kind": "drop_type",
                "type_kind": "edge",
                "type_id": OLD.edges[0].id,
                "name": "E",
                "mode": "soft",
                "code": "OG-DS-103",
            },
        ],
        "notes": [],
    }


def test_a_refusal_names_every_change_that_is_in_the_way() -> None:
    wanted = compile_schema("node A { a: String  b: String } node B { r: I32 } edge E: A -> B")
    found = plan(OLD, wanted)
    assert not found.supported
    with pytest.raises(InvalidInput) as caught:
        found.require_supported()
    assert caught.value.code is Code.MIGRATION_UNSUPPORTED
    text = str(caught.value)
    for part in ("[OG-MF-106] node:A.a", "[OG-MF-107] node:A", "[OG-MF-103] node:B.r"):
        assert part in text


def test_a_supported_plan_raises_nothing() -> None:
    plan(OLD, NEW).require_supported()


def test_the_steps_do_not_depend_on_the_order_of_declarations() -> None:
    first = "node A {} node B { x: I32? } edge E: A -> B edge F: B -> A"
    second = "edge F: B -> A edge E: A -> B node B { x: I32? } node A {}"
    assert plan(OLD, compile_schema(first)) == plan(OLD, compile_schema(second))


def test_the_codes_are_in_order() -> None:
    assert list(MIGRATION_CODES) == sorted(MIGRATION_CODES)
