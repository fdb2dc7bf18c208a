"""Operands and boolean conditions of `.gq`: the expression part of the parser."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.lang.cursor import TokenCursor
from omnigraph.lang.literal import at_literal, parse_literal
from omnigraph.lang.query import ast
from omnigraph.lang.source import Name, did_you_mean
from omnigraph.lang.tokens import IDENT, TYPE, VAR

AGGREGATES = ("count", "sum", "avg", "min", "max")
TEXT_PREDICATES = ("search", "fuzzy", "match_text")
RANKINGS = ("nearest", "bm25", "rrf")
FUNCTIONS = ("now", *AGGREGATES, *TEXT_PREDICATES, *RANKINGS)

_SYMBOLS = {op.value: op for op in ast.CompareOp if not op.value.isidentifier()}
_WORDS = {op.value: op for op in ast.CompareOp if op.value.isidentifier()}
CLAUSE_OPERATORS = frozenset({*_WORDS, "in", "is", "not", "and", "or"})


class ConditionParser:
    """Precedence, loosest first: `or`, `and`, `not`, comparison."""

    __slots__ = ("at",)

    def __init__(self, cursor: TokenCursor) -> None:
        """Parse from this cursor."""
        self.at = cursor

    def condition(self, *, bare: bool) -> ast.Condition:
        """A whole condition; `bare` allows identifiers without a variable (`where name = 1`)."""
        at = self.at
        start = at.start()
        items = [self._conjunction(bare)]
        while at.accept_word("or"):
            items.append(self._conjunction(bare))
        return items[0] if len(items) == 1 else ast.Or(tuple(items), at.since(start))

    def _conjunction(self, bare: bool) -> ast.Condition:
        at = self.at
        start = at.start()
        items = [self._negation(bare)]
        while at.accept_word("and"):
            items.append(self._negation(bare))
        return items[0] if len(items) == 1 else ast.And(tuple(items), at.since(start))

    def _negation(self, bare: bool) -> ast.Condition:
        at = self.at
        start = at.start()
        if at.at_word("not"):
            if at.peek(1) == "{":
                hint = "a `not { ... }` block is a clause of its own"
                at.fail("a block cannot be part of a condition", hint=hint)
            at.take()
            with at.nested():
                return ast.Not(self._negation(bare), at.since(start))
        if at.peek() == "(":
            at.take()
            with at.nested():
                inner = self.condition(bare=bare)
            at.expect(")", "`)`")
            return inner
        return self._comparison(bare)

    def _comparison(self, bare: bool) -> ast.Condition:
        at = self.at
        start = at.start()
        left = self.operand(bare=bare)
        symbol = _SYMBOLS.get(at.peek())
        if symbol is None and at.peek() == IDENT:
            symbol = _WORDS.get(at.word())
        if symbol is not None:
            at.take()
            right = self.operand(bare=bare)
            return ast.Compare(left, symbol, right, at.since(start))
        if at.accept_word("is"):
            negated = at.accept_word("not")
            at.expect_word("null", "after `is` only `null` or `not null` can follow")
            return ast.IsNull(left, negated, at.since(start))
        negated = at.at_word("not") and at.at_word("in", 1)
        if negated:
            at.take()
        if at.accept_word("in"):
            return self._membership(left, negated=negated, bare=bare, start=start)
        if isinstance(left, ast.Call) and left.function.text in TEXT_PREDICATES:
            return ast.Predicate(left, left.span)
        self._explain_missing_operator(left)

    def _explain_missing_operator(self, left: ast.Operand) -> NoReturn:
        at = self.at
        hint = None
        if at.peek() == IDENT:
            hint = did_you_mean(at.word(), (*_WORDS, "is", "in", "and", "or"))
            if at.word() == "between":
                hint = "write both bounds: `x >= 1 and x <= 9`"
        if isinstance(left, ast.Var) and at.peek() == TYPE:
            hint = f"a variable is bound as `${left.name}: {at.word()}`"
        if hint is None and isinstance(left, ast.PropertyOf):
            shown = f"${left.var.name}.{left.property.text}"
            hint = f"a property is compared with something: `{shown} = ...`, a Bool with `= true`"
        at.fail_expected("a comparison (`=`, `<`, `contains`, `in`, `is null`, ...)", hint)

    def _membership(
        self, left: ast.Operand, *, negated: bool, bare: bool, start: int
    ) -> ast.Condition:
        at = self.at
        if at.peek() != "[":
            container = self.operand(bare=bare)
            return ast.In(left, (), container, negated, at.since(start))
        at.take()
        items: list[ast.Operand] = []
        while not at.accept("]"):
            items.append(self.operand(bare=bare))
            if not at.accept(","):
                at.expect("]", "`,` or `]`")
                break
        return ast.In(left, tuple(items), None, negated, at.since(start))

    def operand(self, *, bare: bool) -> ast.Operand:
        """A literal, variable, property or call; with `bare`, also an identifier alone."""
        at = self.at
        start = at.start()
        kind = at.peek()
        if kind == VAR:
            var = ast.Var(at.take()[1:], at.since(start))
            if not at.accept("."):
                return var
            span = at.here()
            name = Name(at.expect(IDENT, "a property name"), span)
            return ast.PropertyOf(var, name, at.since(start))
        if at_literal(at):
            return parse_literal(at)
        if kind == IDENT and at.peek(1) == "(":
            return self._call(bare)
        if kind == IDENT and bare:
            return ast.Bare(at.take(), at.since(start))
        hint = "equality is written with a single `=`" if kind == "=" else None
        if kind == ">" and at.peek(-1) == "<":
            hint = "inequality is written `!=`"
        if kind == IDENT:
            hint = f"properties are read from a variable: `$x.{at.word()}`"
        at.fail_expected("a value, a variable or a function", hint)

    def _call(self, bare: bool) -> ast.Call:
        at = self.at
        start = at.start()
        span = at.here()
        name = Name(at.take(), span)
        if name.text not in FUNCTIONS:
            hint = did_you_mean(name.text, FUNCTIONS)
            at.fail(f"unknown function `{name.text}`", span, hint)
        at.expect("(", "`(`")
        distinct = at.at_word("distinct") and at.peek(1) not in (",", ")")
        if distinct:
            at.take()
        args: list[ast.Operand] = []
        with at.nested():
            while not at.accept(")"):
                args.append(self.operand(bare=bare))
                if not at.accept(","):
                    at.expect(")", "`,` or `)`")
                    break
        if name.text == "now" and args:
            at.found.error(at.code, "now() takes no arguments", at.since(start))
        return ast.Call(name, tuple(args), distinct, at.since(start))
