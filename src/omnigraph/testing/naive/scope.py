"""The value of an expression and the truth of a predicate, for one row of bound variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from omnigraph.lang.ir import expr as ir
from omnigraph.testing.naive import text as texts
from omnigraph.testing.naive.graph import ModelGraph

Truth: TypeAlias = bool | None
"""Three-valued: None is unknown."""

Bound: TypeAlias = Mapping[str, str | None]
"""A row of a pipeline: the id of each variable's entity, None when it is missing."""

Embed: TypeAlias = Callable[[str, int], tuple[float, ...]]

_COMPARE: Mapping[ir.CompareOp, Callable[[Any, Any], Any]] = {
    ir.CompareOp.EQ: operator.eq,
    ir.CompareOp.NE: operator.ne,
    ir.CompareOp.LT: operator.lt,
    ir.CompareOp.LE: operator.le,
    ir.CompareOp.GT: operator.gt,
    ir.CompareOp.GE: operator.ge,
}


def no_embedding(_text: str, _dim: int) -> tuple[float, ...]:
    """Stands in where no text is ever embedded."""
    raise AssertionError("nothing to embed with")


@dataclass(frozen=True, slots=True)
class Given:
    """The givens of a statement: parameters in stored form, the moment, an embedding."""

    params: Mapping[str, ir.ConstValue] = field(default_factory=dict)
    now_ms: int = 0
    embed: Embed = no_embedding


@dataclass(frozen=True, slots=True)
class Scope:
    """One row of bound variables in a graph."""

    graph: ModelGraph
    entities: Mapping[str, ir.EntityRef]  # by variable
    given: Given
    bound: Bound

    def value(self, expr: ir.Expr) -> ir.ConstValue:
        """The value of an expression that is no aggregate, entity or ranking."""
        match expr:
            case ir.Const(value):
                return value
            case ir.Param(name):
                return self.given.params[name]
            case ir.Now():
                return self.given.now_ms
            case ir.Prop(var, column):
                return self.column(var, column)
            case _:
                raise AssertionError(f"no plain value: {expr}")

    def column(self, var: str, name: str) -> ir.ConstValue:
        """A column of a variable; null when the entity is missing."""
        entity_id = self.bound[var]
        if entity_id is None:
            return None
        return self.graph.row(self.entities[var], entity_id)[name]

    def holds(self, predicate: ir.Predicate) -> Truth:
        """The truth of a predicate: true, false or unknown."""
        match predicate:
            case ir.Compare(op, left, right):
                return _compare(op, self.value(left), self.value(right))
            case ir.Contains(container, item):
                return _contains(self.value(container), self.value(item))
            case ir.Substring(haystack, needle):
                return _text_test(operator.contains, self.value(haystack), self.value(needle))
            case ir.StartsWith(text, prefix):
                return _text_test(str.startswith, self.value(text), self.value(prefix))
            case ir.OneOf(operand, items):
                known = self.value(operand)
                return any_of(_compare(ir.CompareOp.EQ, known, self.value(item)) for item in items)
            case ir.IsNull(operand):
                return self.value(operand) is None
            case ir.TextMatch():
                return self._matches(predicate)
            case ir.Not(item):
                truth = self.holds(item)
                return None if truth is None else not truth
            case ir.And(items):
                return all_of(self.holds(item) for item in items)
            case ir.Or(items):
                return any_of(self.holds(item) for item in items)
            case _:
                assert_never(predicate)

    def _matches(self, match: ir.TextMatch) -> Truth:
        text = self.column(match.var, match.column)
        query = self.value(match.query)
        if text is None:
            return None
        edits = 0 if match.edits is None else self.value(match.edits)
        assert isinstance(text, str)
        assert isinstance(query, str)
        assert isinstance(edits, int)
        return texts.matches(match.mode, text, query, edits)


def any_of(truths: Iterable[Truth]) -> Truth:
    """True when one is, else unknown when one is, else false."""
    known = list(truths)
    return True if True in known else None if None in known else False


def all_of(truths: Iterable[Truth]) -> Truth:
    """False when one is, else unknown when one is, else true."""
    known = list(truths)
    return False if False in known else None if None in known else True


def _compare(op: ir.CompareOp, left: ir.ConstValue, right: ir.ConstValue) -> Truth:
    if left is None or right is None:
        return None
    # Python compares integers and floats by value and texts by code point, which is byte order.
    return bool(_COMPARE[op](left, right))


def _contains(container: ir.ConstValue, item: ir.ConstValue) -> Truth:
    if container is None:
        return None
    assert isinstance(container, tuple)
    return any_of(_compare(ir.CompareOp.EQ, item, each) for each in container)


def _text_test(
    test: Callable[[str, str], bool], whole: ir.ConstValue, part: ir.ConstValue
) -> Truth:
    if whole is None or part is None:
        return None
    assert isinstance(whole, str)
    assert isinstance(part, str)
    return test(whole, part)
