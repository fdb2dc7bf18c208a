"""Match blocks: which variables a pattern binds, to what types, and under which conditions.

Clauses of a block hold together, whatever their order: types are found by looking at all
bindings first and then following the edges. Only `optional` and `not` blocks depend on what
stands before them, because they may use variables of earlier optional blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.lang.catalog.model import EdgeType, NodeType
from omnigraph.lang.ir.ops import Towards
from omnigraph.lang.query import ast
from omnigraph.lang.query.blocks import Block, Hop, InnerBlock
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import Context
from omnigraph.lang.query.expressions import Expressions
from omnigraph.lang.query.scope import Scope, Variable
from omnigraph.lang.source import Span, did_you_mean

HOPS_MAX = 64


class Patterns:
    """Checks the match blocks of one query."""

    __slots__ = ("context", "exprs")

    def __init__(self, context: Context, exprs: Expressions) -> None:
        """Check in this context."""
        self.context = context
        self.exprs = exprs

    def block(self, clauses: Iterable[ast.Clause], scope: Scope) -> Block:
        """Check one block in its scope, binding its variables there."""
        clauses = tuple(clauses)
        block = Block()
        bindings = [item for item in clauses if isinstance(item, ast.Binding)]
        traversals = [item for item in clauses if isinstance(item, ast.Traversal)]
        bound = [(item, self._bind(item, scope, block)) for item in bindings]
        self._bind_edges(traversals, scope, block)
        self._resolve(traversals, scope, block)
        for item, variable in bound:
            if variable is not None:
                for match in item.matches:
                    predicate = self.exprs.match(match, variable, scope)
                    if predicate is not None:
                        block.filters.append(predicate)
        # Conditions may read variables of optional blocks, so these come first.
        for clause in clauses:
            if isinstance(clause, ast.Optional):
                self._inner(clause, scope, block)
        for clause in clauses:
            if isinstance(clause, ast.Filter):
                self._filter(clause.condition, scope, block)
            elif isinstance(clause, ast.Negation):
                self._inner(clause, scope, block)
        return block

    # -- bindings --------------------------------------------------------------------------

    def _bind(self, item: ast.Binding, scope: Scope, block: Block) -> Variable | None:
        node = self.context.names.catalog.node_by_name.get(item.type.text)
        if node is None:
            self._unknown_node(item.type)
            return None
        return self._bind_node(item.var, node, scope, block)

    def _unknown_node(self, name: ast.Name) -> None:
        catalog = self.context.names.catalog
        hint = did_you_mean(name.text, catalog.node_by_name)
        if name.text in catalog.edge_by_name:
            low = name.text[0].lower() + name.text[1:]
            hint = f"`{name.text}` is an edge type: follow it with `$a {low} $b`"
        message = f"unknown node type `{name.text}`"
        self.context.error(QueryCode.UNKNOWN_NODE_TYPE, message, name.span, hint)

    def _bind_node(
        self, var: ast.Var, node: NodeType, scope: Scope, block: Block
    ) -> Variable | None:
        variable = scope.find(var.name)
        if variable is None:
            if not self._free_of_params(var):
                return None
            variable = scope.bind(var.name, node)
            block.binds.append(variable.key)
            return variable
        if variable.entity is not node:
            code = QueryCode.UNBOUND
            if variable.entity.kind == "edge":
                code = QueryCode.EDGE_BINDING
            message = (
                f"`${var.name}` is bound to `{variable.entity.name}` already, "
                f"it cannot also be `{node.name}`"
            )
            self.context.error(code, message, var.span)
            return None
        if not self._usable(variable, var, scope):
            return None
        return variable

    def _free_of_params(self, var: ast.Var) -> bool:
        if var.name not in self.context.names.params:
            return True
        message = f"`${var.name}` is a parameter, it cannot be bound as a variable"
        self.context.error(QueryCode.NAME_CLASH, message, var.span, "choose another name")
        return False

    def _usable(self, variable: Variable, var: ast.Var, scope: Scope) -> bool:
        """A variable of an optional block may not be forced into the pattern around it."""
        if not variable.optional or var.name not in scope.own:
            return True
        message = f"`${var.name}` comes from an optional block and may be missing here"
        hint = "put this clause into an optional block of its own"
        self.context.error(QueryCode.OPTIONAL_USE, message, var.span, hint)
        return False

    # -- traversals ------------------------------------------------------------------------

    def _bind_edges(self, traversals: list[ast.Traversal], scope: Scope, block: Block) -> None:
        """Declare the edge variables, so that ends cannot take their names."""
        for item in traversals:
            edge = self._edge(item.edge)
            var = item.binding
            if edge is None or var is None or var.name == "_":
                continue
            if item.hops is not None:
                message = f"`${var.name}` cannot name an edge of a path of several hops"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                continue
            if var.name in (item.source.name, item.target.name) or scope.find(var.name):
                message = f"`${var.name}` is used already; an edge variable needs a fresh name"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                continue
            if self._free_of_params(var):
                variable = scope.bind(var.name, edge)
                block.binds.append(variable.key)

    def _edge(self, name: ast.Name) -> EdgeType | None:
        return self.context.names.catalog.edge_by_folded_name.get(name.text.lower())

    def _resolve(self, traversals: list[ast.Traversal], scope: Scope, block: Block) -> None:
        """Type the ends of all traversals, starting from those that touch a typed variable."""
        waiting = [item for item in traversals if self._known_edge(item)]
        hops: dict[int, Hop | None] = {}
        while waiting:
            ready = next((item for item in waiting if self._typed(item, scope)), waiting[0])
            waiting.remove(ready)
            hops[id(ready)] = self._hop(ready, scope, block)
        for item in traversals:
            hop = hops.get(id(item))
            if hop is not None:
                block.hops.append(hop)

    def _known_edge(self, item: ast.Traversal) -> bool:
        if self._edge(item.edge) is not None:
            return True
        edges = self.context.names.catalog.edges
        names = [edge.name[0].lower() + edge.name[1:] for edge in edges]
        message = f"unknown edge type `{item.edge.text}`"
        hint = did_you_mean(item.edge.text, names)
        self.context.error(QueryCode.UNKNOWN_EDGE, message, item.edge.span, hint)
        return False

    def _typed(self, item: ast.Traversal, scope: Scope) -> bool:
        return any(scope.find(var.name) is not None for var in (item.source, item.target))

    def _hop(self, item: ast.Traversal, scope: Scope, block: Block) -> Hop | None:
        edge = self._edge(item.edge)
        bounds = self._bounds(item)
        if edge is None or bounds is None or not self._ends_are_nodes(item, scope):
            return None
        if item.undirected and edge.source != edge.target:
            message = f"`{edge.name}` leads from {edge.source} to {edge.target}, not both ways"
            hint = f"follow it in one direction: `$a {item.edge.text} $b`"
            self.context.error(QueryCode.UNDIRECTED, message, item.span, hint)
            return None
        towards = self._direction(item, edge, scope)
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
        return Hop(source.key, target.key, edge, towards, *bounds, edge_var)

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

    def _ends_are_nodes(self, item: ast.Traversal, scope: Scope) -> bool:
        for var in (item.source, item.target):
            variable = scope.find(var.name)
            if variable is not None and variable.entity.kind == "edge":
                message = f"`${var.name}` is an edge; a traversal leads from node to node"
                self.context.error(QueryCode.EDGE_BINDING, message, var.span)
                return False
        return True

    def _direction(self, item: ast.Traversal, edge: EdgeType, scope: Scope) -> Towards | None:
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

    def _end(self, var: ast.Var, node: NodeType, scope: Scope, block: Block) -> Variable | None:
        if var.name == "_":
            variable = scope.bind("_", node)
            block.binds.append(variable.key)
            return variable
        return self._bind_node(var, node, scope, block)

    # -- conditions and blocks -------------------------------------------------------------

    def _filter(self, condition: ast.Condition, scope: Scope, block: Block) -> None:
        # A conjunction is the same as its parts side by side; parts can be pushed down.
        if isinstance(condition, ast.And):
            for part in condition.items:
                self._filter(part, scope, block)
            return
        predicate = self.exprs.condition(condition, scope)
        if predicate is not None:
            block.filters.append(predicate)

    def _inner(self, clause: ast.Negation | ast.Optional, scope: Scope, block: Block) -> None:
        optional = isinstance(clause, ast.Optional)
        inner_scope = Scope(self.context.names, scope)
        errors = self.context.found.errors
        inner = self.block(clause.clauses, inner_scope)
        outer = tuple(sorted(inner.mentioned() - set(inner.all_bound())))
        if not outer and self.context.found.errors == errors:
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
