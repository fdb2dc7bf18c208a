"""Match blocks: which variables a pattern binds, to what types, and under which conditions.

Clauses of a block hold together, whatever their order: types are found by looking at all
bindings first and then following the edges; `inference` decides where no binding does. Only
`optional` and `not` blocks depend on what stands before them, because they may use variables of
earlier optional blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from omnigraph.lang.catalog.model import EdgeType, NodeType
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import Towards
from omnigraph.lang.query import ast
from omnigraph.lang.query.blocks import Block, Hop, InnerBlock
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.expressions import Expressions
from omnigraph.lang.query.inference import Link, Undecided, decide, parts
from omnigraph.lang.query.scope import ID, QueryScope, Variable
from omnigraph.lang.source import Name, Span

HOPS_MAX = 64


class _Step(NamedTuple):
    """A traversal with what it names."""

    item: ast.Traversal
    edge: EdgeType
    low: int
    high: int


class Patterns:
    """Checks the match blocks of one query."""

    __slots__ = ("context", "exprs")

    def __init__(self, context: CheckContext, exprs: Expressions) -> None:
        """Check in this context."""
        self.context = context
        self.exprs = exprs

    def block(self, clauses: Iterable[ast.Clause], scope: QueryScope) -> Block:
        """Check one block in its scope, binding its variables there."""
        clauses = tuple(clauses)
        block = Block()
        bindings = [item for item in clauses if isinstance(item, ast.Binding)]
        traversals = [item for item in clauses if isinstance(item, ast.Traversal)]
        self._check_optional_order(clauses, scope)
        bound = [(item, self._bind(item, scope, block)) for item in bindings]
        self._bind_edges(traversals, scope, block)
        self._resolve(traversals, scope, block)
        for clause in clauses:
            if isinstance(clause, ast.Optional | ast.Negation):
                self._inner(clause, scope, block)
        # Conditions may read the variables of every optional block, so they come last, and with
        # them the braces of a binding, which are conditions too.
        for item, variable in bound:
            if variable is not None:
                for match in item.matches:
                    predicate = self.exprs.match(match, variable, scope)
                    if predicate is not None:
                        block.filters.append(predicate)
        for clause in clauses:
            if isinstance(clause, ast.Filter):
                self._filter(clause.condition, scope, block)
        return block

    # -- bindings --------------------------------------------------------------------------

    def _bind(self, item: ast.Binding, scope: QueryScope, block: Block) -> Variable | None:
        node = self.context.names.catalog.node_by_name.get(item.type.text)
        if node is None:
            self._unknown_node(item.type)
            scope.lose(item.var.name)
            return None
        variable = self._bind_node(item.var, node, scope, block)
        if variable is not None and item.var.name not in scope.own:
            self._rebind(variable, block)
        return variable

    def _rebind(self, variable: Variable, block: Block) -> None:
        """A binding of a variable from outside is a condition: it is there."""
        if variable.key in block.rebinds:
            return
        block.rebinds.add(variable.key)
        if variable.optional:
            there = ir.IsNull(ir.Prop(variable.key, "id", ID.optional()))
            block.filters.append(ir.Not(there))

    def _unknown_node(self, name: Name) -> None:
        catalog = self.context.names.catalog
        hint = self.context.near(name.text, catalog.node_by_name)
        if name.text in catalog.edge_by_name:
            low = name.text[0].lower() + name.text[1:]
            hint = f"`{name.text}` is an edge type: follow it with `$a {low} $b`"
        message = f"unknown node type `{name.text}`"
        self.context.error(QueryCode.UNKNOWN_NODE_TYPE, message, name.span, hint)

    def _bind_node(
        self, var: ast.Var, node: NodeType, scope: QueryScope, block: Block
    ) -> Variable | None:
        variable = scope.find(var.name)
        if variable is None:
            if not self._free_of_params(var, scope):
                return None
            scope.has_lost(var.name)
            variable = scope.bind(var.name, node)
            block.binds.append(variable.key)
            return variable
        if variable.entity is not node:
            edge = variable.entity.kind == "edge"
            code = QueryCode.EDGE_BINDING if edge else QueryCode.NAME_CLASH
            message = (
                f"`${var.name}` is bound to `{variable.entity.name}` already, "
                f"it cannot also be `{node.name}`"
            )
            self.context.error(code, message, var.span)
            return None
        return variable

    def _free_of_params(self, var: ast.Var, scope: QueryScope) -> bool:
        if var.name not in self.context.names.params:
            return True
        message = f"`${var.name}` is a parameter, it cannot be bound as a variable"
        self.context.error(QueryCode.NAME_CLASH, message, var.span, "choose another name")
        scope.lose(var.name)
        return False

    def _check_optional_order(self, clauses: tuple[ast.Clause, ...], scope: QueryScope) -> None:
        """Reports clauses that require what an earlier optional block introduces.

        The clauses of a pattern hold in any order, so such a clause would bind the variable by
        itself and leave the optional block without effect, which cannot be meant.
        """
        required: set[str] = set()
        introduced: set[str] = set()
        for clause in clauses:
            if isinstance(clause, ast.Optional):
                introduced.update(
                    var.name
                    for var in _pattern_variables(clause)
                    if var.name not in required and scope.find(var.name) is None
                )
            elif isinstance(clause, ast.Binding | ast.Traversal):
                for var in _pattern_variables(clause):
                    if var.name in introduced:
                        message = f"`${var.name}` comes from an optional block and may be missing"
                        hint = "put this clause before that block, or into an optional block"
                        self.context.error(QueryCode.OPTIONAL_USE, message, var.span, hint)
                    required.add(var.name)

    # -- traversals ------------------------------------------------------------------------

    def _bind_edges(self, traversals: list[ast.Traversal], scope: QueryScope, block: Block) -> None:
        """Declare the edge variables, so that ends cannot take their names."""
        for item in traversals:
            edge = self._edge(item.edge)
            var = item.binding
            if edge is None or var is None or var.name == "_":
                continue
            if item.hops is not None:
                message = f"`${var.name}` cannot name an edge of a path with hop bounds"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                scope.lose(var.name)
                continue
            if var.name in (item.source.name, item.target.name) or scope.find(var.name):
                message = f"`${var.name}` is used already; an edge variable needs a fresh name"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                continue
            if self._free_of_params(var, scope):
                variable = scope.bind(var.name, edge)
                block.binds.append(variable.key)

    def _edge(self, name: Name) -> EdgeType | None:
        return self.context.names.catalog.edge_by_folded_name.get(name.text.lower())

    def _resolve(self, traversals: list[ast.Traversal], scope: QueryScope, block: Block) -> None:
        """Type the ends of all traversals, starting from those that touch a typed variable."""
        steps: dict[int, _Step] = {}
        for index, item in enumerate(traversals):
            step = self._step(item, scope)
            if step is not None:
                steps[index] = step
            else:
                self._lose(item, scope)
        hops: dict[int, Hop | None] = {}
        starts = self._starts(steps, scope, hops)
        touching: dict[str, list[int]] = {}
        for index, step in steps.items():
            for var in (step.item.source, step.item.target):
                touching.setdefault(var.name, []).append(index)
        waiting = deque(steps)
        typed: list[int] = []
        for name in [name for name in touching if scope.find(name) is not None]:
            typed.extend(touching.pop(name))
        heapify(typed)
        while typed or waiting:
            index = heappop(typed) if typed else waiting.popleft()
            if index in hops:
                continue
            item = traversals[index]
            hops[index] = self._hop(steps[index], starts.get(index), scope, block)
            for name in {item.source.name, item.target.name}:
                if scope.find(name) is not None:
                    for other in touching.pop(name, ()):
                        heappush(typed, other)
        block.hops.extend(hop for _, hop in sorted(hops.items()) if hop is not None)
        for index, item in enumerate(traversals):
            if hops.get(index) is None:
                self._lose(item, scope)

    def _lose(self, item: ast.Traversal, scope: QueryScope) -> None:
        for var in _pattern_variables(item):
            scope.lose(var.name)

    def _starts(
        self, steps: Mapping[int, _Step], scope: QueryScope, hops: dict[int, Hop | None]
    ) -> dict[int, Towards]:
        """Decides how to follow the first traversal of each part that no binding types.

        Parts that are not decided are reported, and count as done in `hops`.
        """
        starts: dict[int, Towards] = {}
        links = {
            index: Link(step.item.source.name, step.item.target.name, step.edge)
            for index, step in steps.items()
        }
        for part in parts(links):
            names = {name for index in part for name in links[index][:2]}
            if any(scope.find(name) is not None for name in names):
                continue
            answer = decide([links[index] for index in part])
            if isinstance(answer, Towards):
                starts[part[0]] = answer
                continue
            hops.update(dict.fromkeys(part))
            # A name whose own clause was rejected might have decided it.
            if not any(scope.has_lost(name) for name in names):
                self._undecided([steps[index].item for index in part], answer)
        return starts

    def _undecided(self, items: list[ast.Traversal], answer: Undecided) -> None:
        ends = (var for item in items for var in (item.source, item.target))
        span = next(var.span for var in ends if var.name == answer.name)
        low, high = answer.types
        message = f"`${answer.name}` may be a {low} or a {high}: the pattern fits both"
        hint = f"bind it: `${answer.name}: {low}` or `${answer.name}: {high}`"
        self.context.error(QueryCode.ENDPOINT_MISMATCH, message, span, hint)

    def _known_edge(self, item: ast.Traversal) -> bool:
        if self._edge(item.edge) is not None:
            return True
        edges = self.context.names.catalog.edges
        names = [edge.name[0].lower() + edge.name[1:] for edge in edges]
        message = f"unknown edge type `{item.edge.text}`"
        hint = self.context.near(item.edge.text, names)
        self.context.error(QueryCode.UNKNOWN_EDGE, message, item.edge.span, hint)
        return False

    def _step(self, item: ast.Traversal, scope: QueryScope) -> _Step | None:
        """A traversal that is sound by itself, whatever the types of its ends."""
        edge = self._edge(item.edge) if self._known_edge(item) else None
        if edge is None:
            return None
        bounds = self._bounds(item)
        if bounds is None or not self._ends_are_nodes(item, scope):
            return None
        if item.undirected and edge.source != edge.target:
            message = f"`{edge.name}` leads from {edge.source} to {edge.target}, not both ways"
            hint = f"follow it in one direction: `$a {item.edge.text} $b`"
            self.context.error(QueryCode.UNDIRECTED, message, item.span, hint)
            return None
        if item.source.name == item.target.name != "_" and edge.source != edge.target:
            message = (
                f"`${item.source.name}` cannot be at both ends: `{edge.name}` leads "
                f"from {edge.source} to {edge.target}"
            )
            self.context.error(QueryCode.ENDPOINT_MISMATCH, message, item.span)
            return None
        return _Step(item, edge, *bounds)

    def _hop(
        self, step: _Step, start: Towards | None, scope: QueryScope, block: Block
    ) -> Hop | None:
        item, edge = step.item, step.edge
        towards = start or self._direction(item, edge, scope)
        if towards is None:
            return None
        catalog = self.context.names.catalog
        ends = (edge.source, edge.target) if towards is Towards.OUT else (edge.target, edge.source)
        source = self._end(item.source, catalog.node_by_name[ends[0]], scope, block)
        target = self._end(item.target, catalog.node_by_name[ends[1]], scope, block)
        if source is None or target is None:
            return None
        edge_var: str | None = None
        if item.binding is not None and item.binding.name != "_":
            bound = scope.own.get(item.binding.name)
            edge_var = bound.key if bound is not None else None
        if item.undirected:
            towards = Towards.BOTH
        return Hop(source.key, target.key, edge, towards, step.low, step.high, edge_var)

    def _bounds(self, item: ast.Traversal) -> tuple[int, int] | None:
        hops = item.hops
        if hops is None:
            return 1, 1
        problem = None
        if hops.high is None:
            problem = f"say where to stop: `{{{hops.low},{max(hops.low, 3)}}}`"
        elif hops.low < 1:
            problem = "a path has at least one hop"
        elif hops.high < hops.low:
            problem = "the largest number of hops is smaller than the smallest"
        elif hops.high > HOPS_MAX:
            problem = f"a path has at most {HOPS_MAX} hops"
        if problem is not None or hops.high is None:
            self.context.error(QueryCode.HOPS_OR_NEAREST, problem or "", hops.span)
            return None
        return hops.low, hops.high

    def _ends_are_nodes(self, item: ast.Traversal, scope: QueryScope) -> bool:
        for var in (item.source, item.target):
            variable = scope.find(var.name)
            if variable is not None and variable.entity.kind == "edge":
                message = f"`${var.name}` is an edge; a traversal leads from node to node"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                return False
        return True

    def _direction(self, item: ast.Traversal, edge: EdgeType, scope: QueryScope) -> Towards | None:
        """Follow the edge out of the source if the types allow it, else into it."""
        source, target = scope.find(item.source.name), scope.find(item.target.name)
        out = (edge.source, edge.target)
        for towards, ends in ((Towards.OUT, out), (Towards.IN, out[::-1])):
            fits = source is None or source.entity.name == ends[0]
            if fits and (target is None or target.entity.name == ends[1]):
                return towards
        wrong = source if source is not None and source.entity.name not in out else target
        var = item.source if wrong is source else item.target
        if wrong is not None:
            message = (
                f"`${var.name}` is a {wrong.entity.name}, but `{edge.name}` leads "
                f"from {edge.source} to {edge.target}"
            )
            self.context.error(QueryCode.ENDPOINT_MISMATCH, message, var.span)
        return None

    def _end(
        self, var: ast.Var, node: NodeType, scope: QueryScope, block: Block
    ) -> Variable | None:
        if var.name == "_":
            variable = scope.bind("_", node)
            block.binds.append(variable.key)
            return variable
        return self._bind_node(var, node, scope, block)

    # -- conditions and blocks -------------------------------------------------------------

    def _filter(self, condition: ast.Condition, scope: QueryScope, block: Block) -> None:
        # A conjunction is the same as its parts side by side; parts can be pushed down.
        if isinstance(condition, ast.And):
            for part in condition.items:
                self._filter(part, scope, block)
            return
        predicate = self.exprs.condition(condition, scope)
        if predicate is not None:
            block.filters.append(predicate)

    def _inner(self, clause: ast.Negation | ast.Optional, scope: QueryScope, block: Block) -> None:
        optional = isinstance(clause, ast.Optional)
        inner_scope = QueryScope(self.context.names, scope)
        errors = self.context.found.errors
        inner = self.block(clause.clauses, inner_scope)
        outer = tuple(sorted(inner.mentioned() - set(inner.all_bound())))
        scope.doubtful |= inner_scope.doubtful
        if not outer and self.context.found.errors == errors and not inner_scope.doubtful:
            self._disconnected(clause.span, optional=optional)
        if optional:
            for name, variable in inner_scope.own.items():
                variable.optional = True
                scope.own[name] = variable
        block.inner.append(InnerBlock(optional, inner, outer))

    def _disconnected(self, span: Span, *, optional: bool) -> None:
        word = "optional" if optional else "not"
        code = QueryCode.OPTIONAL_USE if optional else QueryCode.GROUPING
        message = f"this `{word}` block uses no variable from outside"
        hint = "connect it to a variable that is bound around it"
        at = Span(span.start, min(span.end, span.start + len(word)))
        self.context.error(code, message, at, hint)


def _pattern_variables(clause: ast.Clause) -> Iterator[ast.Var]:
    """The variables that a clause binds if nothing else does; an optional block lends its own."""
    match clause:
        case ast.Binding(var):
            found: tuple[ast.Var | None, ...] = (var,)
        case ast.Traversal(source, _, target, binding):
            found = (source, binding, target)
        case ast.Optional(clauses):
            for inner in clauses:
                yield from _pattern_variables(inner)
            return
        case _:
            return
    for item in found:
        if item is not None and item.name != "_":
            yield item
