"""The types that a pattern gives its variables depend on what it says, not on the order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.ops import ReadPlan
from tests.property.query_programs import CATALOG

NAMES = ("a", "b", "c", "d")
EDGES = [edge for edge in CATALOG.edges if edge.name != "Badge"]
Hop = tuple[str, str, str]


@dataclass(frozen=True)
class Pattern:
    """Traversals between a few variables, some of which are bound to a type."""

    hops: tuple[Hop, ...]
    bound: tuple[tuple[str, str], ...] = ()

    @property
    def clauses(self) -> list[str]:
        hops = [f"${a} {edge[0].lower()}{edge[1:]} ${b}" for a, edge, b in self.hops]
        return [*hops, *(f"${name}: {node}" for name, node in self.bound)]

    @property
    def names(self) -> list[str]:
        found = {name for a, _, b in self.hops for name in (a, b)} - {"_"}
        return sorted(found | {name for name, _ in self.bound})


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    ends = st.sampled_from((*NAMES, "_"))
    # Few edge types, so that patterns without any typing stay rare.
    edges = st.sampled_from(
        draw(st.lists(st.sampled_from([edge.name for edge in EDGES]), min_size=1, max_size=2))
    )
    hops = draw(st.lists(st.tuples(ends, edges, ends), min_size=1, max_size=5))
    names = sorted({name for a, _, b in hops for name in (a, b)} - {"_"})
    bound: list[tuple[str, str]] = []
    if names and draw(st.integers(1, 3)) == 1:
        nodes = st.sampled_from([node.name for node in CATALOG.nodes])
        bound.append((draw(st.sampled_from(names)), draw(nodes)))
    return Pattern(tuple(hops), tuple(bound))


def text(pattern: Pattern, clauses: list[str]) -> str:
    returned = ", ".join(f"${name}.id as {name}" for name in pattern.names) or "1 as one"
    return f"query q() {{ match {{ {' '.join(clauses)} }} return {{ {returned} }} }}"


def outcome(pattern: Pattern, clauses: list[str]) -> object:
    """What must be the same for every order of the clauses; None when it is refused."""
    try:
        (plan,) = compile_queries(text(pattern, clauses), CATALOG)
    except InvalidInput:
        return None
    assert isinstance(plan, ReadPlan)
    needs = sorted(
        (need.var.partition("#")[0], need.entity.name, need.columns, need.nullable)
        for need in plan.needs
    )
    return needs, plan.outputs, plan.reads


def types(plan: ReadPlan) -> dict[str, str]:
    return {need.var: need.entity.name for need in plan.needs if not need.var.startswith("_")}


def typings(pattern: Pattern) -> list[dict[str, str]]:
    """Every assignment of types that fits, found by trying all directions of all edges."""
    found: list[dict[str, str]] = []
    for directions in product((True, False), repeat=len(pattern.hops)):
        known = typing(pattern, directions)
        if known is not None and known not in found:
            found.append(known)
    return found


def typing(pattern: Pattern, directions: tuple[bool, ...]) -> dict[str, str] | None:
    known = dict(pattern.bound)
    for (a, name, b), out in zip(pattern.hops, directions, strict=True):
        edge = CATALOG.edge_by_name[name]
        ends = (edge.source, edge.target) if out else (edge.target, edge.source)
        for end, node in zip((a, b), ends, strict=True):
            if end != "_" and known.setdefault(end, node) != node:
                return None
    return known


def parts(pattern: Pattern) -> list[Pattern]:
    """The connected parts, by merging what shares a name."""
    groups: list[tuple[set[str], list[Hop]]] = []
    for hop in pattern.hops:
        names, hops = {hop[0], hop[2]} - {"_"}, [hop]
        touching = [group for group in groups if group[0] & names]
        for group in touching:
            groups.remove(group)
            names |= group[0]
            hops += group[1]
        groups.append((names, hops))
    return [
        Pattern(tuple(hops), tuple(item for item in pattern.bound if item[0] in names))
        for names, hops in groups
    ]


def expected(pattern: Pattern) -> dict[str, str] | None:
    """The rule, in the words of the documentation."""
    known: dict[str, str] = {}
    for part in parts(pattern):
        fitting = typings(part)
        out = typing(part, (True,) * len(part.hops))
        if out is not None and not part.bound:
            known |= out
        elif len(fitting) == 1:
            known |= fitting[0]
        else:
            return None
    return known


AMBIGUOUS = Pattern((("a", "WorksAt", "b"), ("b", "WorksAt", "c")))


@given(patterns(), st.data())
@example(AMBIGUOUS, None)
def test_the_order_of_clauses_decides_nothing(pattern: Pattern, data: st.DataObject | None) -> None:
    first = outcome(pattern, pattern.clauses)
    assert outcome(pattern, pattern.clauses[::-1]) == first
    if data is not None:
        shuffled = data.draw(st.permutations(pattern.clauses))
        assert outcome(pattern, shuffled) == first


@given(patterns())
@example(AMBIGUOUS)
def test_types_follow_the_rule(pattern: Pattern) -> None:
    wanted = expected(pattern)
    if wanted is None:
        with pytest.raises(InvalidInput) as caught:
            compile_queries(text(pattern, pattern.clauses), CATALOG)
        assert {item["code"] for item in caught.value.diagnostics} == {"T5"}
        return
    (plan,) = compile_queries(text(pattern, pattern.clauses), CATALOG)
    assert isinstance(plan, ReadPlan)
    assert types(plan) == wanted
