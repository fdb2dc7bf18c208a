"""Syntax tree to canonical `.gq` text; parsing the text gives the same tree, comments survive."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang.layout import Layout, commas
from omnigraph.lang.literal import Literal, format_literal
from omnigraph.lang.query import ast
from omnigraph.lang.source import Span
from omnigraph.lang.tokens import quote


def format_queries(file: ast.QueryFile) -> str:
    """The canonical text of a file."""
    page = Layout(file.text, file.comments)
    for query in file.queries:
        page.blank()
        _query(page, query)
    return page.finish()


def _query(page: Layout, query: ast.Query) -> None:
    head = f"query {query.name.text}({commas(_parameter(item) for item in query.params)})"
    notes = [f"@{item.name}({quote(item.text)})" for item in query.annotations]
    line = " ".join([head, *notes, "{"])
    if notes and not page.fits(line):
        line = "\n".join([head, *(f"  {note}" for note in notes), "{"])
    page.open(query.head_span, line)
    if isinstance(query.body, ast.Read):
        _read(page, query.body)
    else:
        for statement in query.body.statements:
            _statement(page, statement)
    page.close(query.span.end)


def _parameter(item: ast.Parameter) -> str:
    return f"${item.name}: {item.type}"


# -- reading -------------------------------------------------------------------------------


def _read(page: Layout, body: ast.Read) -> None:
    _clauses(page, "match", body.match, body.match_span)
    _listed(
        page,
        "return distinct" if body.distinct else "return",
        [(_projection(item), item.span) for item in body.returns],
        body.return_span,
    )
    if body.order:
        keys = [(_order_key(item), item.span) for item in body.order]
        _listed(page, "order", keys, body.order_span)
    bounds = sorted(
        (
            (item.span, f"{word} {operand_text(item)}")
            for word, item in (("limit", body.limit), ("offset", body.offset))
            if item is not None
        ),
        key=lambda pair: pair[0],
    )
    for span, text in bounds:
        page.item(span, text)


def _listed(page: Layout, word: str, items: list[tuple[str, Span]], span: Span) -> None:
    """`word { a, b }` on one line when it fits, else one item per line."""
    line = f"{word} {{ {commas(text for text, _ in items)} }}"
    if page.fits(line) and not page.holds_comment(span):
        page.item(span, line)
        return
    page.open(Span(span.start, span.start + 1), f"{word} {{")
    for text, at in items:
        page.item(at, f"{text},")
    page.close(span.end)


def _projection(item: ast.Projection) -> str:
    text = operand_text(item.expr)
    return text if item.alias is None else f"{text} as {item.alias.text}"


def _order_key(item: ast.OrderKey) -> str:
    text = operand_text(item.expr)
    return text if item.direction is None else f"{text} {item.direction}"


def _clauses(page: Layout, word: str, clauses: tuple[ast.Clause, ...], span: Span) -> None:
    page.open(Span(span.start, span.start + 1), f"{word} {{")
    for clause in clauses:
        _clause(page, clause)
    page.close(span.end)


def _clause(page: Layout, clause: ast.Clause) -> None:
    if isinstance(clause, ast.Negation | ast.Optional):
        word = "not" if isinstance(clause, ast.Negation) else "optional"
        line = f"{word} {{ {' '.join(_clause_line(item) for item in clause.clauses)} }}"
        alone = len(clause.clauses) == 1
        if alone and page.fits(line) and not page.holds_comment(clause.span):
            page.item(clause.span, line)
        else:
            _clauses(page, word, clause.clauses, clause.span)
    else:
        page.item(clause.span, _clause_line(clause))


def _clause_line(clause: ast.Clause) -> str:
    match clause:
        case ast.Binding(var, type_name, matches):
            text = f"${var.name}: {type_name.text}"
            return f"{text} {_assignments(matches)}" if matches else text
        case ast.Traversal():
            return _traversal(clause)
        case ast.Filter(condition):
            return condition_text(condition)
        case ast.Negation(clauses):
            return f"not {{ {' '.join(_clause_line(item) for item in clauses)} }}"
        case ast.Optional(clauses):
            return f"optional {{ {' '.join(_clause_line(item) for item in clauses)} }}"
        case _:
            assert_never(clause)


def _traversal(clause: ast.Traversal) -> str:
    parts = [f"${clause.source.name}"]
    if clause.binding is not None:
        parts.append(f"${clause.binding.name}:")
    parts.append(f"<{clause.edge.text}>" if clause.undirected else clause.edge.text)
    if clause.hops is not None:
        high = "" if clause.hops.high is None else clause.hops.high
        parts.append(f"{{{clause.hops.low},{high}}}")
    parts.append(f"${clause.target.name}")
    return " ".join(parts)


# -- conditions and operands ---------------------------------------------------------------


def condition_text(condition: ast.Condition) -> str:
    """A condition as source text, with the parentheses its tree needs and no others."""
    match condition:
        case ast.Compare(left, op, right):
            return f"{operand_text(left)} {op} {operand_text(right)}"
        case ast.IsNull(operand, negated):
            return f"{operand_text(operand)} is {'not ' if negated else ''}null"
        case ast.In(operand, items, container, negated):
            word = "not in" if negated else "in"
            if container is None:
                listed = f"[{commas(operand_text(item) for item in items)}]"
            else:
                listed = operand_text(container)
            return f"{operand_text(operand)} {word} {listed}"
        case ast.Predicate(call):
            return operand_text(call)
        case ast.Not(item):
            return f"not {_grouped(item, ast.And, ast.Or)}"
        case ast.And(items):
            return " and ".join(_grouped(item, ast.And, ast.Or) for item in items)
        case ast.Or(items):
            return " or ".join(_grouped(item, ast.Or) for item in items)
        case _:
            assert_never(condition)


def _grouped(condition: ast.Condition, *loose: type[ast.Condition]) -> str:
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, loose) else text


def operand_text(operand: ast.Operand) -> str:
    """An operand as source text."""
    match operand:
        case Literal():
            return format_literal(operand)
        case ast.Var(name):
            return f"${name}"
        case ast.PropertyOf(var, name):
            return f"${var.name}.{name.text}"
        case ast.Bare(text):
            return text
        case ast.Call(function, args, distinct):
            lead = "distinct " if distinct else ""
            return f"{function.text}({lead}{commas(operand_text(arg) for arg in args)})"
        case _:
            assert_never(operand)


# -- changing ------------------------------------------------------------------------------


def _statement(page: Layout, statement: ast.Statement) -> None:
    match statement:
        case ast.Insert(type_name, assignments):
            _assigning(page, f"insert {type_name.text}", assignments, "", statement.span)
        case ast.Update(type_name, assignments, where):
            tail = f" where {condition_text(where)}"
            _assigning(page, f"update {type_name.text} set", assignments, tail, statement.span)
        case ast.Delete(type_name, where):
            page.item(statement.span, f"delete {type_name.text} where {condition_text(where)}")
        case _:
            assert_never(statement)


def _assigning(
    page: Layout, head: str, assignments: tuple[ast.Assignment, ...], tail: str, span: Span
) -> None:
    line = f"{head} {_assignments(assignments)}{tail}"
    if page.fits(line) and not page.holds_comment(span):
        page.item(span, line)
        return
    page.open(Span(span.start, span.start + 1), f"{head} {{")
    for item in assignments:
        page.item(item.span, f"{_assignment(item)},")
    page.close(span.end, f"}}{tail}")


def _assignments(items: tuple[ast.Assignment, ...]) -> str:
    return f"{{ {commas(_assignment(item) for item in items)} }}" if items else "{ }"


def _assignment(item: ast.Assignment) -> str:
    return f"{item.property.text}: {operand_text(item.value)}"
