"""Conditions for the store: never a row too few, whatever the predicate and whoever wrote it."""

from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.core.maintenance.indices import ensure_indices
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.prefilter import NOTHING, fixed_ids, prefilter
from omnigraph.lang import compile_schema
from omnigraph.lang.ir.expr import (
    And,
    Compare,
    CompareOp,
    Const,
    ConstValue,
    Contains,
    IsNull,
    Not,
    OneOf,
    Or,
    Param,
    Predicate,
    Prop,
    StartsWith,
    Substring,
)
from omnigraph.lang.values import DAYS, F32_MAX, MILLIS, Base, ValueType, to_f32
from omnigraph.rules.identity import entity_ids
from omnigraph.store.root import Root
from omnigraph.store.table import Table
from tests.graphs import Delta, make, write

SCHEMA = """
node T {
    s: String? @index
    b: Bool? @index
    i32: I32? @index
    i64: I64? @index
    u64: U64? @index
    f32: F32? @index
    f64: F64? @index
    d: Date? @index
    t: DateTime? @index
    k1: I32
    k2: String
    @key(k1, k2)
}
"""
ENTITY = compile_schema(SCHEMA).node_by_name["T"]
HOSTILE = [
    "",
    "'",
    "''",
    "it's",
    '"',
    "`",
    "\\",
    "\\'",
    "a' OR '1'='1",
    "'; DROP TABLE t; --",
    "%",
    "_",
    "\n",
    "\x00",
    "/*",
    "é",
    "e\u0301",
    "😀",
    "null",
    "a",
    "ab",
]
VALUES: dict[str, list[Any]] = {
    "s": [*HOSTILE, None],
    "b": [True, False, None],
    "i32": [0, 1, -1, 2**31 - 1, -(2**31), None],
    "i64": [0, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), None],
    "u64": [0, 1, 2**63, 2**64 - 1, None],
    "f32": [0.0, -0.0, to_f32(0.1), F32_MAX, 1e-45, 16777216.0, None],
    "f64": [0.0, -0.0, 0.1, 1e300, 5e-324, -1.5, 2.0**53, None],
    "d": [0, -1, DAYS.start, DAYS.stop - 1, None],
    "t": [0, -1, 1, MILLIS.start, MILLIS.stop - 1, None],
}
BASES = {
    "s": Base.STRING,
    "b": Base.BOOL,
    "i32": Base.I32,
    "i64": Base.I64,
    "u64": Base.U64,
    "f32": Base.F32,
    "f64": Base.F64,
    "d": Base.DATE,
    "t": Base.DATETIME,
    "id": Base.STRING,
    "k1": Base.I32,
    "k2": Base.STRING,
}
NUMBERS = [name for name in VALUES if name[0] in "iuf"]
ROWS = 60


def content() -> pa.Table:
    """Every value occurs with many others: the lists have lengths without a common factor."""
    schema = table_schema(ENTITY)
    columns = {name: list(islice(cycle(values), ROWS)) for name, values in VALUES.items()}
    columns["k1"] = [number % 7 for number in range(ROWS)]
    columns["k2"] = [HOSTILE[number % len(HOSTILE)] + str(number // 30) for number in range(ROWS)]
    arrays = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
    arrays["id"] = entity_ids(ENTITY, arrays)
    return pa.table([arrays[name] for name in schema.names], schema=schema)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    """The same rows without and with indexes."""
    folder: Path = tmp_path_factory.mktemp("prefilter")
    repo = make(Root.parse(str(folder / "graph")), SCHEMA)
    write(repo, {"node:T": Delta(insert=content().to_pylist())})
    plain = repo.table(repo.snapshot().pin("node:T"))
    ensure_indices(repo)
    return [plain, repo.table(repo.snapshot().pin("node:T"))]


@cache
def rows() -> pa.Table:
    return content()


# -- predicates ------------------------------------------------------------------------------------


def constants(name: str) -> st.SearchStrategy[Const]:
    """Values of the column's own type, or any number beside a number."""
    if name in NUMBERS:
        pairs = [(base, value) for base in NUMBERS for value in VALUES[base]]
        pairs += [("f64", 0.5), ("f64", -1e300), ("f64", 2.0**64), ("i64", 3_000_000_000)]
    elif name in VALUES:
        pairs = [(name, value) for value in VALUES[name]]
    else:
        pairs = [(name, value) for value in rows().column(name).to_pylist()]
    return st.sampled_from(pairs).map(
        lambda pair: Const(pair[1], ValueType(BASES[pair[0]], nullable=True))
    )


def prop(name: str) -> Prop:
    return Prop("", name, ValueType(BASES[name], nullable=True))


@st.composite
def simple(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from([*VALUES, "id", "k1", "k2"]))
    side = prop(name)
    match draw(st.integers(0, 6 if name == "s" else 4)):
        case 0 | 1:
            op, other = draw(st.sampled_from(CompareOp)), draw(constants(name))
            return Compare(op, side, other) if draw(st.booleans()) else Compare(op, other, side)
        case 2:
            return IsNull(side)
        case 3:
            return OneOf(side, tuple(draw(st.lists(constants(name), max_size=4))))
        case 4:
            items = draw(st.lists(constants(name), max_size=4))
            kind = ValueType(BASES[name], is_list=True)
            return Contains(Const(tuple(item.value for item in items), kind), side)
        case 5:
            return StartsWith(side, draw(constants(name)))
        case _:
            return Substring(side, draw(constants(name)))


def predicates() -> st.SearchStrategy[Predicate]:
    return st.recursive(
        simple(),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda items: And(tuple(items))),
            st.lists(inner, min_size=1, max_size=3).map(lambda items: Or(tuple(items))),
        ),
        max_leaves=6,
    )


CONTEXT = EvalContext({}, 0)


def true_ids(predicate: Predicate) -> set[str]:
    table = rows()
    truth = holds(predicate, lambda _, name: table.column(name), table.num_rows, CONTEXT)
    return set(table.column("id").filter(truth.fill_null(False)).to_pylist())


@given(predicate=predicates())
@settings(max_examples=150)
def test_no_row_is_lost(tables: list[Table], predicate: Predicate) -> None:
    wanted = true_ids(predicate)
    condition = prefilter(predicate, CONTEXT)
    if condition is not None:
        for table in tables:
            found = set(table.read(["id"], filter=condition).column("id").to_pylist())
            assert wanted <= found, condition
    ids = fixed_ids(predicate, ENTITY, CONTEXT)
    if ids is not None:
        assert wanted <= set(ids)


@given(predicate=simple())
@settings(max_examples=100)
def test_a_simple_predicate_is_not_only_kept_but_used(
    tables: list[Table], predicate: Predicate
) -> None:
    """A condition lets through just what it must where it says the predicate exactly."""
    condition = prefilter(predicate, CONTEXT)
    match predicate:
        case Compare(op, _, _) if op in (CompareOp.EQ, CompareOp.NE):
            exact = True
        case IsNull() | OneOf() | Contains() | StartsWith() | Substring():
            exact = True
        case _:
            exact = False
    if exact:
        assert condition is not None
        found = tables[0].read(["id"], filter=condition).column("id").to_pylist()
        assert set(found) == true_ids(predicate), condition


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_only_a_text(tables: list[Table], text: str) -> None:
    context = EvalContext({"p": text}, 0)
    given_text = Param("p", ValueType(Base.STRING))
    for predicate in (
        Compare(CompareOp.EQ, prop("s"), given_text),
        OneOf(prop("s"), (given_text,)),
        Or(
            (
                Compare(CompareOp.EQ, prop("s"), given_text),
                Compare(CompareOp.LT, given_text, prop("s")),
            )
        ),
    ):
        condition = prefilter(predicate, context)
        assert condition is not None
        expected = {
            value
            for value in HOSTILE
            if value == text or (isinstance(predicate, Or) and value > text)
        }
        for table in tables:
            found = table.read(["s"], filter=condition).column("s").to_pylist()
            assert set(found) == expected


def fixed(predicate: Predicate, **params: ConstValue) -> tuple[str, ...] | None:
    return fixed_ids(predicate, ENTITY, EvalContext(params, 0))


def test_ids_are_fixed_by_a_whole_key_or_by_themselves() -> None:
    one = Compare(CompareOp.EQ, prop("k1"), Const(1.0, ValueType(Base.F64)))
    two = Compare(CompareOp.EQ, prop("k2"), Param("p", ValueType(Base.STRING)))
    other = IsNull(prop("s"))
    assert fixed(And((one, And((other, two)))), p="x") == ('["1","x"]',)
    assert fixed(one) is None
    assert fixed(Or((one, two)), p="x") is None
    assert fixed(And((one, two)), p=None) == ()
    assert (
        fixed(And((Compare(CompareOp.EQ, prop("k1"), Const(0.5, ValueType(Base.F64))), two)), p="x")
        == ()
    )
    several = OneOf(
        prop("k2"), (Const("x", ValueType(Base.STRING)), Const("y", ValueType(Base.STRING)))
    )
    assert fixed(And((one, several))) == ('["1","x"]', '["1","y"]')
    assert fixed(Compare(CompareOp.EQ, prop("id"), Param("p", ValueType(Base.STRING))), p="z") == (
        "z",
    )
    assert (
        fixed(Not(Compare(CompareOp.EQ, prop("id"), Param("p", ValueType(Base.STRING)))), p="z")
        is None
    )


def test_what_cannot_be_true_reads_nothing() -> None:
    null = Const(None, ValueType(Base.I32, nullable=True))
    for predicate in (
        Compare(CompareOp.GT, prop("i32"), null),
        Not(Compare(CompareOp.GT, prop("i32"), null)),
        OneOf(prop("i32"), ()),
        And(
            (Compare(CompareOp.EQ, prop("i32"), Const(0.5, ValueType(Base.F64))), IsNull(prop("s")))
        ),
    ):
        assert prefilter(predicate, CONTEXT) == NOTHING
