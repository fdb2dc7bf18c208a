"""The tables of the query language: what fits, what is assigned, what compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.fit import fit, natural
from omnigraph.lang.ir.expr import Const
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query.typing import (
    assignable,
    comparable,
    fit_comparison,
    temporal_hint,
)
from omnigraph.lang.values import (
    F32_MAX,
    FLOATS,
    INT_RANGES,
    INTEGERS,
    NUMERIC,
    ORDERED,
    SCALARS,
    Base,
    ValueType,
)
from omnigraph.testing.strategies_query import literals

TEXT, INT, FLOAT, BOOL = (
    Literal(LiteralKind.STRING, "a"),
    Literal(LiteralKind.INT, 1),
    Literal(LiteralKind.FLOAT, 1.5),
    Literal(LiteralKind.BOOL, True),
)
DATE, MOMENT = Literal(LiteralKind.DATE, 2), Literal(LiteralKind.DATETIME, 5)
NULL = Literal(LiteralKind.NULL)
SCALAR_LITERALS = (TEXT, INT, FLOAT, BOOL, DATE, MOMENT)

FITS: dict[Base, tuple[Literal, ...]] = {
    Base.STRING: (TEXT,),
    Base.BOOL: (BOOL,),
    Base.DATE: (DATE,),
    Base.DATETIME: (DATE, MOMENT),
    Base.BLOB: (TEXT,),
    **dict.fromkeys(INTEGERS, (INT,)),
    **dict.fromkeys(FLOATS, (INT, FLOAT)),
}


def listed(*items: Literal) -> Literal:
    return Literal(LiteralKind.LIST, items=items)


@pytest.mark.parametrize("base", sorted(FITS))
@pytest.mark.parametrize("literal", SCALAR_LITERALS, ids=str)
def test_fit_of_scalars(base: Base, literal: Literal) -> None:
    fitted = fit(literal, ValueType(base))
    assert isinstance(fitted, Const) == (literal in FITS[base])


def test_the_table_of_fits_is_total() -> None:
    assert set(FITS) == set(SCALARS.values())


@pytest.mark.parametrize("base", sorted(INTEGERS))
def test_integers_fit_their_range(base: Base) -> None:
    for edge, inside in zip(INT_RANGES[base], (1, -1), strict=True):
        wanted = ValueType(base)
        assert fit(Literal(LiteralKind.INT, edge), wanted) == Const(edge, wanted)
        assert isinstance(fit(Literal(LiteralKind.INT, edge + inside), wanted), Const)
        assert isinstance(fit(Literal(LiteralKind.INT, edge - inside), wanted), str)


def test_floats_fit_their_range() -> None:
    huge = Literal(LiteralKind.FLOAT, F32_MAX * 2)
    assert isinstance(fit(huge, ValueType(Base.F32)), str)
    assert isinstance(fit(huge, ValueType(Base.F64)), Const)
    assert fit(INT, ValueType(Base.F32)) == Const(1.0, ValueType(Base.F32))


def test_f32_constants_are_the_values_that_are_stored() -> None:
    tenth, stored = Literal(LiteralKind.FLOAT, 0.1), Literal(LiteralKind.FLOAT, 0.10000000149011612)
    for wanted in (ValueType(Base.F32), ValueType(Base.F32, nullable=True)):
        assert fit(tenth, wanted) == fit(stored, wanted) == Const(0.10000000149011612, wanted)
    assert fit(tenth, ValueType(Base.F64)) == Const(0.1, ValueType(Base.F64))
    vector = ValueType(Base.VECTOR, dim=1)
    assert fit(listed(tenth), vector) == Const((0.10000000149011612,), vector)


def test_an_integer_beyond_every_float_is_out_of_range_and_not_an_overflow() -> None:
    endless = Literal(LiteralKind.INT, 10**400)
    for wanted in (ValueType(Base.F32), ValueType(Base.F64), ValueType(Base.I64)):
        assert "out of range" in str(fit(endless, wanted))
    assert isinstance(fit(listed(endless), ValueType(Base.VECTOR, dim=1)), str)


def test_null_fits_what_is_nullable() -> None:
    for kind in (ValueType(Base.I32), ValueType(Base.I32, is_list=True)):
        assert isinstance(fit(NULL, kind), str)
        assert fit(NULL, kind.optional()) == Const(None, kind.optional())


def test_a_date_is_the_midnight_of_a_date_time() -> None:
    assert fit(DATE, ValueType(Base.DATETIME)) == Const(2 * 86_400_000, ValueType(Base.DATETIME))


def test_lists_fit_element_by_element() -> None:
    wanted = ValueType(Base.F64, is_list=True)
    assert fit(listed(INT, FLOAT), wanted) == Const((1.0, 1.5), wanted)
    assert fit(listed(), wanted) == Const((), wanted)
    for literal in (INT, listed(TEXT), listed(NULL), listed(listed(INT))):
        assert isinstance(fit(literal, wanted), str)
    assert isinstance(fit(listed(INT), ValueType(Base.F64)), str)


def test_vectors_fit_by_length() -> None:
    wanted = ValueType(Base.VECTOR, dim=2)
    assert fit(listed(INT, FLOAT), wanted) == Const((1.0, 1.5), wanted)
    huge = Literal(LiteralKind.FLOAT, 1e300)
    for literal in (listed(INT), listed(INT, TEXT), listed(INT, BOOL), TEXT, listed(INT, huge)):
        assert isinstance(fit(literal, wanted), str)


def test_enums_fit_by_value() -> None:
    wanted = ValueType(Base.STRING, enum=("a", "b"))
    assert fit(TEXT, wanted) == Const("a", wanted)
    problem = fit(Literal(LiteralKind.STRING, "blocks"), ValueType(Base.STRING, enum=("block",)))
    assert problem == "'blocks' is not one of block (did you mean `block`?)"


@given(literals, st.sampled_from(sorted(SCALARS.values())), st.booleans(), st.booleans())
def test_what_fits_has_the_wanted_type(
    literal: Literal, base: Base, nullable: bool, is_list: bool
) -> None:
    wanted = ValueType(base, nullable, is_list)
    fitted = fit(literal, wanted)
    if isinstance(fitted, Const):
        assert fitted.type == wanted
        assert isinstance(fitted.value, tuple) == (is_list and fitted.value is not None)


@given(literals)
def test_natural_types(literal: Literal) -> None:
    const = natural(literal)
    if const is None:
        huge = literal.kind is LiteralKind.INT
        assert huge or literal.kind in (LiteralKind.LIST, LiteralKind.NULL)
    else:
        assert const.value == literal.value
        assert fit(literal, const.type) == const


@pytest.mark.parametrize("left", sorted(Base))
@pytest.mark.parametrize("right", sorted(Base))
def test_comparable(left: Base, right: Base) -> None:
    both = {left, right}
    expected = both <= ORDERED and (left is right or both <= NUMERIC)
    assert comparable(ValueType(left), ValueType(right, nullable=True)) == expected
    assert comparable(ValueType(right), ValueType(left)) == expected
    assert not comparable(ValueType(left, is_list=True), ValueType(right))


@pytest.mark.parametrize("actual", sorted(SCALARS.values()))
@pytest.mark.parametrize("wanted", sorted(SCALARS.values()))
def test_assignable(actual: Base, wanted: Base) -> None:
    expected = (
        actual is wanted
        or (actual in INTEGERS and wanted in NUMERIC)
        or (actual in FLOATS and wanted in FLOATS)
        or (actual is Base.STRING and wanted is Base.BLOB)
    )
    assert assignable(ValueType(actual, nullable=True), ValueType(wanted)) == expected
    if Base.BLOB not in (actual, wanted):
        lists = ValueType(actual, is_list=True), ValueType(wanted, is_list=True)
        assert assignable(*lists) == expected
    assert not assignable(ValueType(actual, is_list=True), ValueType(wanted))
    assert not assignable(ValueType(actual), ValueType(wanted, is_list=True))


def test_vectors_are_assigned_by_dimension() -> None:
    three, two = ValueType(Base.VECTOR, dim=3), ValueType(Base.VECTOR, dim=2)
    assert assignable(three, three.optional())
    assert not assignable(three, two)
    assert not assignable(ValueType(Base.F32, is_list=True), three)


def test_comparisons_are_looser_than_assignments() -> None:
    age = ValueType(Base.I32, nullable=True)
    assert fit_comparison(INT, age) == Const(1, age.required())
    assert fit_comparison(FLOAT, age) == Const(1.5, ValueType(Base.F64))
    big = Literal(LiteralKind.INT, 2**40)
    assert fit_comparison(big, age) == Const(2**40, ValueType(Base.I64))
    bigger = Literal(LiteralKind.INT, 2**63)
    assert fit_comparison(bigger, age) == Const(2**63, ValueType(Base.U64))
    assert isinstance(fit_comparison(Literal(LiteralKind.INT, 2**64), age), str)
    assert isinstance(fit_comparison(TEXT, age), str)
    assert isinstance(fit_comparison(TEXT, ValueType(Base.STRING, enum=("b",))), str)


@pytest.mark.parametrize(
    ("value", "base", "kept"),
    [
        (2**53, Base.F64, Base.F64),
        (2**53 + 1, Base.F64, Base.I64),
        (2**64 - 1, Base.F64, Base.U64),
        (2**64, Base.F64, Base.F64),
        (2**24, Base.F32, Base.F32),
        (2**24 + 1, Base.F32, Base.I64),
        (0.5, Base.F32, Base.F32),
        (1e300, Base.F32, Base.F64),
        (0.1, Base.F64, Base.F64),
        (2**63, Base.I64, Base.U64),
        (2**32, Base.I32, Base.I64),
        (-1, Base.U64, Base.I64),
    ],
)
def test_a_comparison_rounds_no_integer(value: float, base: Base, kept: Base) -> None:
    kind = LiteralKind.INT if isinstance(value, int) else LiteralKind.FLOAT
    const = fit_comparison(Literal(kind, value), ValueType(base, nullable=True))
    assert const == Const(value, ValueType(kept))


def test_a_fraction_compares_as_it_would_be_stored() -> None:
    const = fit_comparison(Literal(LiteralKind.FLOAT, 0.1), ValueType(Base.F32))
    assert const == Const(0.10000000149011612, ValueType(Base.F32))


@pytest.mark.parametrize("base", [Base.F64, Base.F32, Base.U64])
def test_an_integer_that_nothing_holds_does_not_compare(base: Base) -> None:
    huge = Literal(LiteralKind.INT, 2**64 + 1)
    assert isinstance(fit_comparison(huge, ValueType(base)), str)


def test_hints_about_dates() -> None:
    text, day, moment = (ValueType(base) for base in (Base.STRING, Base.DATE, Base.DATETIME))
    assert "date(" in str(temporal_hint(text, day))
    assert "datetime(" in str(temporal_hint(moment, text))
    assert "midnight" in str(temporal_hint(moment, day))
    assert temporal_hint(text, text) is None
