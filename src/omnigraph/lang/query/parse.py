"""`.gq` text to syntax tree. Reports every independent mistake; never raises for bad text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeVar

from omnigraph.lang.cursor import Bail, TokenCursor
from omnigraph.lang.literal import Literal, LiteralKind, at_literal, parse_literal
from omnigraph.lang.query import ast
from omnigraph.lang.query.conditions import CLAUSE_OPERATORS, ConditionParser
from omnigraph.lang.source import Diagnostics, Name, Source, did_you_mean
from omnigraph.lang.tokens import EOF, IDENT, INT, TYPE, VAR
from omnigraph.lang.values import SCALARS, VECTOR_DIM_MAX, Base, ValueType

SYNTAX = "Q000"

_T = TypeVar("_T")

_ANNOTATIONS = ("description", "instruction")
_STATEMENTS = ("insert", "update", "delete")
_READ_PARTS = ("match", "return", "order", "limit", "offset")


def parse_queries(source: Source, found: Diagnostics) -> ast.QueryFile:
    """Parse a whole file; what could not be parsed is missing from the tree and reported."""
    return _QueryParser(TokenCursor(source, found, SYNTAX)).file()


class _QueryParser:
    """One run over one source."""

    __slots__ = ("at", "conditions", "params", "scars")

    def __init__(self, cursor: TokenCursor) -> None:
        self.at = cursor
        self.params: frozenset[str] = frozenset()
        self.conditions = ConditionParser(cursor)
        # Where the lexer stopped: so far nothing else was reported.
        self.scars = [item.span.start for item in cursor.found.sorted()]

    # -- files and heads -------------------------------------------------------------------

    def file(self) -> ast.QueryFile:
        at = self.at
        queries: list[ast.Query] = []
        while at.peek() != EOF:
            try:
                queries.append(self.query())
            except Bail:
                self._skip_to_query()
        return ast.QueryFile(tuple(queries), at.comments, at.source.text)

    def _skip_to_query(self) -> None:
        """Go to the next `query name (`, the only place where a declaration can start."""
        at = self.at
        at.depth = 0
        while at.peek() != EOF and not self._at_query():
            at.take()

    def _at_query(self) -> bool:
        at = self.at
        return at.at_word("query") and at.peek(1) == IDENT and at.peek(2) == "("

    def query(self) -> ast.Query:
        at = self.at
        start = at.start()
        errors = at.found.errors
        if not at.accept_word("query"):
            hint = did_you_mean(at.word(), ("query",)) if at.peek() == IDENT else None
            at.fail_expected("`query`", hint)
        name = self._name("a query name", "query names start with a lower-case letter")
        params = self._params()
        self.params = frozenset(param.name for param in params)
        annotations = self._annotations()
        at.expect("{", "`{`")
        head = at.since(start)
        body = self._body()
        span = at.since(start)
        scarred = bisect_left(self.scars, span.start) < bisect_left(self.scars, span.end)
        broken = scarred or at.found.errors > errors
        return ast.Query(name, params, annotations, body, head, span, broken)

    def _name(self, what: str, hint: str | None = None) -> Name:
        span = self.at.here()
        return Name(self.at.expect(IDENT, what, hint), span)

    def _type_name(self) -> Name:
        span = self.at.here()
        hint = "type names start with an upper-case letter" if self.at.peek() == IDENT else None
        return Name(self.at.expect(TYPE, "a type name", hint), span)

    def _var(self, what: str = "a variable") -> ast.Var:
        at = self.at
        span = at.here()
        hint = f"variables are written with `$`: `${at.word()}`" if at.peek() == IDENT else None
        return ast.Var(at.expect(VAR, what, hint)[1:], span)

    def _params(self) -> tuple[ast.Parameter, ...]:
        at = self.at
        params: list[ast.Parameter] = []
        at.expect("(", "`(`")
        while not at.accept(")"):
            start = at.start()
            var = self._var("a parameter or `)`")
            at.expect(":", "`:` and the type of the parameter")
            kind = self._param_type()
            params.append(ast.Parameter(var.name, kind, at.since(start)))
            if not at.accept(","):
                at.expect(")", "`,` or `)`")
                break
        return tuple(params)

    def _param_type(self) -> ValueType:
        at = self.at
        is_list = at.accept("[")
        span = at.here()
        word = at.expect(TYPE, "a type", self._type_hint())
        dim = 0
        if word == "Vector":
            if is_list:
                at.fail("a list of vectors is not a parameter type", span)
            at.expect("(", "`(` and the dimension")
            span = at.here()
            dim = at.integer("the dimension")
            at.expect(")", "`)`")
            if not 1 <= dim <= VECTOR_DIM_MAX:
                message = f"a vector dimension lies between 1 and {VECTOR_DIM_MAX}"
                at.found.error(SYNTAX, message, span)
        elif word not in SCALARS:
            known = (*SCALARS, "Vector")
            hint = did_you_mean(word, known) or f"the types are {', '.join(known)}"
            at.fail(f"unknown parameter type `{word}`", span, hint)
        if is_list:
            at.expect("]", "`]`")
        nullable = at.accept("?")
        base = Base.VECTOR if word == "Vector" else SCALARS[word]
        return ValueType(base, nullable, is_list, dim)

    def _type_hint(self) -> str | None:
        if self.at.at_word("enum"):
            return "pass an enum value as a String"
        return did_you_mean(self.at.word(), SCALARS) if self.at.peek() == IDENT else None

    def _annotations(self) -> tuple[ast.QueryAnnotation, ...]:
        at = self.at
        annotations: list[ast.QueryAnnotation] = []
        while at.peek() == "@":
            start = at.start()
            at.take()
            word = at.expect(IDENT, "an annotation name")
            if word not in _ANNOTATIONS:
                hint = did_you_mean(word, _ANNOTATIONS) or "queries take @description, @instruction"
                at.fail(f"unknown query annotation `@{word}`", at.since(start), hint)
            at.expect("(", "`(`")
            text = at.string()
            at.expect(")", "`)`")
            span = at.since(start)
            if any(item.name == word for item in annotations):
                at.found.error(SYNTAX, f"`@{word}` is given twice", span)
            annotations.append(ast.QueryAnnotation(word, text, span))
        return tuple(annotations)

    def _body(self) -> ast.Read | ast.Mutation:
        at = self.at
        if at.word() in _STATEMENTS and at.peek() == IDENT:
            return self._mutation()
        if at.at_word("match"):
            return self._read()
        hint = did_you_mean(at.word(), ("match", *_STATEMENTS)) if at.peek() == IDENT else None
        at.fail_expected("`match`, `insert`, `update` or `delete`", hint)

    # -- reading ---------------------------------------------------------------------------

    def _read(self) -> ast.Read:
        at = self.at
        start = at.start()
        at.expect_word("match")
        match = self._clauses()
        match_span = at.since(start)
        start = at.start()
        at.expect_word("return", "a reading query needs `return { ... }` after `match`")
        distinct = at.accept_word("distinct")
        returns = self._block(self._projection, "something to return", comma=True)
        return_span = at.since(start)
        order: tuple[ast.OrderKey, ...] = ()
        start = at.start()
        if at.accept_word("order"):
            order = self._block(self._order_key, "an order key", comma=True)
        order_span = at.since(start)
        limit, offset = self._bounds()
        if at.peek() == IDENT and at.word() in _READ_PARTS:
            hint = "a query reads `match return order limit offset`, each at most once"
            at.fail(f"`{at.word()}` cannot stand here", hint=hint)
        at.expect("}", "`}`", did_you_mean(at.word(), _READ_PARTS))
        return ast.Read(
            match, returns, distinct, order, limit, offset, match_span, return_span, order_span
        )

    def _bounds(self) -> tuple[Literal | ast.Var | None, Literal | ast.Var | None]:
        """`limit n` and `offset n`, in either order."""
        at = self.at
        limit: Literal | ast.Var | None = None
        offset: Literal | ast.Var | None = None
        while True:
            if limit is None and at.accept_word("limit"):
                limit = self._bound("limit")
            elif offset is None and at.accept_word("offset"):
                offset = self._bound("offset")
            else:
                return limit, offset

    def _bound(self, what: str) -> Literal | ast.Var:
        at = self.at
        if at.peek() == VAR:
            return self._var()
        span = at.here()
        if at.peek() != INT:
            at.fail_expected(f"a whole number or a parameter after `{what}`")
        return Literal(LiteralKind.INT, at.integer(), (), span)

    def _block(self, item: Callable[[], _T], what: str, *, comma: bool) -> tuple[_T, ...]:
        """`{ item item ... }` with at least one item; a broken item is skipped."""
        at = self.at
        start = at.start()
        at.expect("{", "`{`")
        items: list[_T] = []
        broken = False
        with at.nested():
            while not at.accept("}"):
                if at.peek() == EOF or self._at_query():
                    at.fail_expected("`}`")
                if self._at_next_part():
                    message = f"expected `}}` before `{at.word()}`"
                    at.found.error(SYNTAX, message, at.here())
                    broken = True
                    break
                begin = at.pos
                try:
                    items.append(item())
                    if comma:
                        at.accept(",")
                except Bail:
                    broken = True
                    self._skip_item(begin, comma=comma)
        if not items and not broken:
            message = f"this block is empty: expected {what}"
            at.found.error(SYNTAX, message, at.since(start))
        return tuple(items)

    def _at_next_part(self) -> bool:
        """True if another part of the query starts here, so that this block was left open."""
        at = self.at
        if at.at_word("return"):
            return at.peek(1) == "{" or (at.at_word("distinct", 1) and at.peek(2) == "{")
        return at.at_word("order") and at.peek(1) == "{"

    def _skip_item(self, begin: int, *, comma: bool) -> None:
        """Skip to where the next item of a block may start, or to its end."""
        at = self.at
        line = at.source.position(at.start())[0]
        taken = at.kinds[begin : at.pos]
        level = sum(taken.count(kind) for kind in "{([") - sum(taken.count(kind) for kind in "})]")
        while at.peek() != EOF and not self._at_query() and not self._at_next_part():
            kind = at.peek()
            later = at.source.position(at.start())[0] > line
            # A new line that starts like an item is the best guess at the user's intent.
            if later and kind in (VAR, IDENT, "("):
                return
            # The item may have been left inside brackets of its own.
            if kind == "}" and (level <= 0 or later):
                return
            if kind in ("}", ")", "]"):
                level -= 1
            at.skip_balanced()
            if comma and kind == "," and level <= 0:
                return

    # -- match clauses ---------------------------------------------------------------------

    def _clauses(self) -> tuple[ast.Clause, ...]:
        return self._block(self._clause, "a match clause", comma=False)

    def _clause(self) -> ast.Clause:
        at = self.at
        start = at.start()
        if at.peek() == IDENT and at.peek(1) == "{":
            word = at.word()
            if word in ("not", "optional"):
                at.take()
                clauses = self._clauses()
                make = ast.Negation if word == "not" else ast.Optional
                return make(clauses, at.since(start))
        if at.peek() == VAR:
            if at.peek(1) == ":":
                return self._binding()
            if self._at_traversal():
                return self._traversal()
        condition = self.conditions.condition(bare=False)
        return ast.Filter(condition, at.since(start))

    def _at_traversal(self) -> bool:
        """True if the clause that starts with this variable follows an edge."""
        at = self.at
        after = at.peek(1)
        if after == VAR:
            return True
        if after == "<":
            return at.peek(2) == IDENT and at.peek(3) == ">"
        if after == TYPE:
            return at.peek(2) == VAR
        if after != IDENT:
            return False
        if at.word(1) in CLAUSE_OPERATORS:
            if at.peek(2) == "{" and at.peek(3) == INT:
                return True  # hop bounds; no condition has braces
            # `$a contains $b.name` compares; `$a contains $b` follows an edge named Contains,
            # unless `$a` is a parameter, which no edge can leave.
            if at.word()[1:] in self.params:
                return False
            return at.peek(2) == VAR and at.peek(3) != "."
        return True

    def _binding(self) -> ast.Binding:
        at = self.at
        start = at.start()
        var = self._var()
        at.expect(":", "`:`")
        type_name = self._type_name()
        matches: tuple[ast.Assignment, ...] = ()
        if at.peek() == "{":
            matches = self._assignments()
        return ast.Binding(var, type_name, matches, at.since(start))

    def _assignments(self) -> tuple[ast.Assignment, ...]:
        """`{ name: value, ... }`, possibly empty."""
        at = self.at
        items: list[ast.Assignment] = []
        at.expect("{", "`{`")
        while not at.accept("}"):
            try:
                items.append(self._assignment())
                at.accept(",")
            except Bail:
                while at.peek() not in ("}", ",", EOF) and not self._at_query():
                    at.skip_balanced()
                if self._at_query():
                    raise
                if not at.accept(",") and at.peek() == EOF:
                    raise
        return tuple(items)

    def _assignment(self) -> ast.Assignment:
        at = self.at
        start = at.start()
        name = self._name("a property name or `}`")
        at.expect(":", "`:`", "properties are given as `name: value`")
        value = self._value()
        return ast.Assignment(name, value, at.since(start))

    def _value(self) -> ast.Operand:
        """A literal, a parameter or `now()`."""
        at = self.at
        start = at.start()
        if at.peek() == VAR:
            var = self._var()
            if at.peek() == ".":
                at.take()
                name = self._name("a property name")
                return ast.PropertyOf(var, name, at.since(start))
            return var
        if at.at_word("now") and at.peek(1) == "(":
            return self.conditions.operand(bare=False)
        if at_literal(at):
            return parse_literal(at)
        at.fail_expected("a value: a literal, a parameter or `now()`")

    def _traversal(self) -> ast.Traversal:
        at = self.at
        start = at.start()
        source = self._var()
        binding: ast.Var | None = None
        if at.peek() == VAR:
            binding = self._var()
            at.expect(":", "`:` and the edge", "an edge is bound as `$a $e: knows $b`")
        undirected = at.accept("<")
        hint = "edge names start with a lower-case letter in queries" if at.peek() == TYPE else None
        span = at.here()
        edge = Name(at.expect(IDENT, "an edge name", hint), span)
        if undirected:
            at.expect(">", "`>`")
        hops = self._hops() if at.peek() == "{" else None
        target = self._var("the variable at the other end of the edge")
        return ast.Traversal(source, edge, target, binding, undirected, hops, at.since(start))

    def _hops(self) -> ast.Hops:
        at = self.at
        start = at.start()
        at.expect("{", "`{`")
        low = at.integer("the smallest number of hops")
        at.expect(",", "`,`", f"an exact number of hops is written `{{{low},{low}}}`")
        high = at.integer() if at.peek() == INT else None
        at.expect("}", "`}`")
        return ast.Hops(low, high, at.since(start))

    # -- return and order ------------------------------------------------------------------

    def _projection(self) -> ast.Projection:
        at = self.at
        start = at.start()
        expr = self.conditions.operand(bare=False)
        alias = self._name("a column name") if at.accept_word("as") else None
        return ast.Projection(expr, alias, at.since(start))

    def _order_key(self) -> ast.OrderKey:
        at = self.at
        start = at.start()
        expr = self.conditions.operand(bare=True)
        direction: ast.Direction | None = None
        if at.peek() == IDENT and at.word() in ("asc", "desc"):
            direction = ast.Direction(at.take())
        return ast.OrderKey(expr, direction, at.since(start))

    # -- changing --------------------------------------------------------------------------

    def _mutation(self) -> ast.Mutation:
        at = self.at
        statements: list[ast.Statement] = []
        while not at.accept("}"):
            try:
                statements.append(self._statement())
            except Bail:
                if not self._skip_to_statement():
                    raise
        return ast.Mutation(tuple(statements))

    def _skip_to_statement(self) -> bool:
        """Go to the next statement of this body; False when the body ends first."""
        at = self.at
        while at.peek() not in ("}", EOF) and not self._at_query():
            if at.peek() == IDENT and at.word() in _STATEMENTS and at.peek(1) == TYPE:
                return True
            at.skip_balanced()
        return at.peek() == "}"

    def _statement(self) -> ast.Statement:
        at = self.at
        start = at.start()
        word = at.word() if at.peek() == IDENT else ""
        if word not in _STATEMENTS:
            hint = did_you_mean(word, _STATEMENTS) if word else None
            at.fail_expected("`insert`, `update`, `delete` or `}`", hint)
        at.take()
        type_name = self._type_name()
        if word == "insert":
            return ast.Insert(type_name, self._assignments(), at.since(start))
        if word == "update":
            at.expect_word("set", "an update reads `update T set { ... } where ...`")
            assignments = self._assignments()
            where = self._where(word)
            return ast.Update(type_name, assignments, where, at.since(start))
        where = self._where(word)
        return ast.Delete(type_name, where, at.since(start))

    def _where(self, word: str) -> ast.Condition:
        hint = f"say which entities to {word}: `where name = $name`"
        self.at.expect_word("where", hint)
        return self.conditions.condition(bare=True)
