"""The types of variables that no binding names, found from the edges between them.

An edge type connects two node types, so the type of one end determines the type of the other.
Therefore a connected part of a pattern has at most two typings: its first edge is followed out, or
in. Which of them is meant must not depend on the order of clauses:

- following every edge out is the natural reading, and wins where it is possible;
- else the only possible typing wins;
- else the author has to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.ir.ops import Towards

ANYTHING = "_"


class Link(NamedTuple):
    """A traversal as far as types go: the names of its ends, and the edge."""

    source: str
    target: str
    edge: EdgeType


@dataclass(frozen=True, slots=True)
class Undecided:
    """Two typings fit; `name` is a variable whose type differs between them."""

    name: str
    types: tuple[str, str]


def parts(links: Mapping[int, Link]) -> Iterator[tuple[int, ...]]:
    """The connected parts of a pattern, each as the sorted numbers of its links."""
    touching = _by_name(links)
    seen: set[int] = set()
    for first in links:
        if first in seen:
            continue
        seen.add(first)
        found = [first]
        for number in found:
            for name in links[number][:2]:
                # A name is followed once; afterwards there is nothing new behind it.
                for other in touching.pop(name, ()):
                    if other not in seen:
                        seen.add(other)
                        found.append(other)
        yield tuple(sorted(found))


def decide(links: Sequence[Link]) -> Towards | Undecided:
    """Decides how to follow the first link of a connected part in which nothing is typed yet.

    A part that has no typing at all answers too: its conflict shows when the others follow.
    """
    first = links[0].edge
    if first.source == first.target or _all_out(links):
        return Towards.OUT
    numbered = dict(enumerate(links))
    touching = _by_name(numbered)
    out = _typing(numbered, touching, first.source, first.target)
    back = _typing(numbered, touching, first.target, first.source)
    if out is None or back is None:
        return Towards.OUT if back is None else Towards.IN
    shared = next(name for name, numbers in touching.items() if len(numbers) > 1)
    low, high = sorted((out[shared], back[shared]))
    return Undecided(shared, (low, high))


def _by_name(links: Mapping[int, Link]) -> dict[str, list[int]]:
    touching: dict[str, list[int]] = {}
    for number, link in links.items():
        for name in dict.fromkeys((link.source, link.target)):
            if name != ANYTHING:
                touching.setdefault(name, []).append(number)
    return touching


def _all_out(links: Sequence[Link]) -> bool:
    types: dict[str, str] = {}
    return all(
        name == ANYTHING or types.setdefault(name, node) == node
        for source, target, edge in links
        for name, node in ((source, edge.source), (target, edge.target))
    )


def _typing(
    links: Mapping[int, Link], touching: Mapping[str, list[int]], source: str, target: str
) -> dict[str, str] | None:
    """The types of all names when the first link leads from one type to another, if they agree."""
    types: dict[str, str] = {}
    settled: list[str] = []

    def settle(name: str, node: str) -> bool:
        if name == ANYTHING:
            return True
        if name not in types:
            types[name] = node
            settled.append(name)
        return types[name] == node

    if not (settle(links[0].source, source) and settle(links[0].target, target)):
        return None
    for name in settled:
        for number in touching[name]:
            link = links[number]
            near, ends = types[name], (link.edge.source, link.edge.target)
            if near not in ends:
                return None
            far = ends[1] if near == ends[0] else ends[0]
            if name == link.source and not settle(link.target, far):
                return None
            if name == link.target and not settle(link.source, far):
                return None
    return types
