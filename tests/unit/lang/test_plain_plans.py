"""Plans as plain values: complete, and nothing but JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, cast

import pytest

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.expr import Column, EntityRef
from omnigraph.lang.ir.ops import Plan
from omnigraph.lang.ir.plain import plain
from omnigraph.lang.values import ValueType
from tests.corpus.harness import CASES, Case, cases
from tests.corpus.kinds_query import catalog

CATALOG = compile_schema(
    "enum Mood { good, bad } "
    "node Doc { slug: String @key mood: Mood? body: String? v: Vector(2)? @embed(body) }"
)


def one(text: str) -> dict[str, Any]:
    (plan,) = compile_queries(text, CATALOG)
    return cast("dict[str, Any]", plain(plan))


@pytest.mark.parametrize("case", cases("query/accept"), ids=str)
def test_every_plan_survives_json(case: Case) -> None:
    for plan in compile_queries(case.text, catalog(CASES / "query" / "accept")):
        value = plain(plan)
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        same_shape(plan, value)


def same_shape(item: object, value: object) -> None:
    """Every field of every part is there."""
    if isinstance(item, tuple):
        assert isinstance(value, list)
        for part, shown in zip(item, value, strict=True):
            same_shape(part, shown)
    elif is_dataclass(item) and not isinstance(item, ValueType | EntityRef | Column):
        assert isinstance(value, dict)
        assert set(value) == {"tag", *(field.name for field in fields(item))}
        for field in fields(item):
            same_shape(getattr(item, field.name), value[field.name])


def test_reading() -> None:
    value = one('query q() { match { $d: Doc { mood: "good" } } return distinct { $d.slug } }')
    assert value["tag"] == "read_plan"
    (scan,) = value["pipeline"]
    assert (scan["tag"], scan["var"], scan["entity"]["name"]) == ("scan", "d", "Doc")
    (compare,) = scan["filters"]
    assert (compare["tag"], compare["op"], compare["right"]["value"]) == ("compare", "=", "good")
    assert compare["right"]["type"]["enum"] == ["bad", "good"]
    assert (value["tie_break"], value["tie_break_columns"]) == ([], [0])


def test_changing_names_whole_columns() -> None:
    value = one('query q($t: String?) { insert Doc { slug: "a", body: $t } }')
    (insert,) = value["ops"]
    columns = {item["column"]["name"]: item["column"]["type"] for item in insert["values"]}
    assert columns == {
        "slug": {"base": "String", "nullable": False},
        "mood": {"base": "String", "nullable": True, "enum": ["bad", "good"]},
        "body": {"base": "String", "nullable": True},
        "v": {"base": "Vector", "nullable": True, "dim": 2},
    }
    (embed,) = insert["embeds"]
    assert embed["target"] == {"name": "v", "type": columns["v"]}
    assert embed["source"] == {"name": "body", "type": columns["body"]}


def test_plans_are_told_apart() -> None:
    tags = [
        one(text)["tag"]
        for text in (
            "query q() { match { $d: Doc } return { $d } }",
            'query q() { delete Doc where slug = "a" }',
        )
    ]
    assert tags == ["read_plan", "mutation_plan"]
    assert {kind.__name__ for kind in Plan.__args__} == {"ReadPlan", "MutationPlan"}
