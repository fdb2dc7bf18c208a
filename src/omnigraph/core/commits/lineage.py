"""The commit graph: histories and merge bases. Pure; commits are looked up one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, Protocol

from omnigraph.core.commits.records import CommitRecord
from omnigraph.errors import JsonValue
from omnigraph.types import CommitId

# The details of a merge commit: the branch that it merged, and the commits that it brought along.
MERGE_SOURCE: Final = "source"
MERGED_COMMITS: Final = "merged_commits"


class Node(Protocol):
    """A commit as part of the commit graph."""

    @property
    def id(self) -> CommitId:
        """The commit."""
        ...

    @property
    def parent_id(self) -> CommitId | None:
        """The commit it was made on top of."""
        ...

    @property
    def merged_parent_id(self) -> CommitId | None:
        """The commit that it merged."""
        ...


@dataclass(frozen=True, slots=True)
class MergedCommit:
    """A commit that a merge brought along from another branch, perhaps deleted since."""

    id: CommitId
    parent_id: CommitId | None
    merged_parent_id: CommitId | None


Lookup = Callable[[CommitId], Node | None]
CommitLookup = Callable[[CommitId], CommitRecord | None]


class Ancestry:
    """The commit graph behind some branches, also where it leads through deleted ones.

    The history of a branch has its own commits and those of the branch that it was made from. Of a
    branch that was merged it has the merge commit, which lists what it brought along.
    """

    def __init__(self, *logs: CommitLookup) -> None:
        """Look commits up in these histories."""
        self._logs = logs
        self._merged: dict[CommitId, MergedCommit] = {}

    def find(self, commit: CommitId) -> Node | None:
        """One commit, if its place in the graph is known."""
        for log in self._logs:
            found = log(commit)
            if found is not None:
                for each in _brought_along(found.details.get(MERGED_COMMITS)):
                    self._merged[each.id] = each
                return found
        return self._merged.get(commit)

    def brought_along(self, target: CommitId, source: CommitId) -> JsonValue:
        """The commits behind `source` that are not behind `target`, as a merge lists them."""
        nodes = map(self.find, sorted(only_behind(self.find, source, target)))
        return [[n.id, n.parent_id, n.merged_parent_id] for n in nodes if n is not None]


def _brought_along(listed: JsonValue) -> Iterator[MergedCommit]:
    for entry in listed if isinstance(listed, list) else ():
        assert isinstance(entry, list)
        ids = [None if text is None else CommitId(str(text)) for text in entry]
        if ids[0] is not None:
            yield MergedCommit(ids[0], ids[1], ids[2])


def first_parents(find: CommitLookup, head: CommitId) -> Iterator[CommitRecord]:
    """The commits of a branch, newest first, without what was merged into it."""
    at: CommitId | None = head
    while at is not None:
        commit = find(at)
        if commit is None:
            return
        yield commit
        at = commit.parent_id


def parents(commit: Node) -> tuple[CommitId, ...]:
    """The one or two commits that a commit was made from."""
    both = (commit.parent_id, commit.merged_parent_id)
    return tuple(parent for parent in both if parent is not None)


def ancestors(find: Lookup, head: CommitId) -> set[CommitId]:
    """A commit and everything it descends from, by either parent."""
    found: set[CommitId] = set()
    waiting = [head]
    while waiting:
        at = waiting.pop()
        commit = None if at in found else find(at)
        if commit is None:
            continue
        found.add(at)
        waiting.extend(parents(commit))
    return found


def newest_first(find: Lookup, heads: Iterable[CommitId]) -> Iterator[Node]:
    """Some commits and everything they descend from, by either parent, the greatest id first."""
    reached = set(heads)
    waiting = [_Newest(head) for head in reached]
    heapq.heapify(waiting)
    while waiting:
        commit = find(heapq.heappop(waiting).id)
        if commit is None:
            continue
        yield commit
        for parent in parents(commit):
            if parent not in reached:
                reached.add(parent)
                heapq.heappush(waiting, _Newest(parent))


def merge_base(find: Lookup, left: CommitId, right: CommitId) -> CommitId | None:
    """The latest common ancestor, or None when two histories share nothing.

    Of several that do not descend from each other (after merges both ways) the one with the
    greatest id is taken, so that the answer is the same for both sides.
    """
    return max(merge_bases(find, left, right), default=None)


_LEFT, _RIGHT, _STALE = 1, 2, 4


def merge_bases(find: Lookup, left: CommitId, right: CommitId) -> frozenset[CommitId]:
    """Every common ancestor from which no other common ancestor descends.

    Walks back from both sides, the greatest id first, and stops when all that is left to visit
    lies behind what was found. Ids grow with time, so this does not go far beyond the bases. Clocks
    may disagree, and then an id misleads: so the answers are compared with each other at the end.
    """
    both = _LEFT | _RIGHT
    walk = _Walk(find)
    walk.reach(left, _LEFT)
    walk.reach(right, _RIGHT)
    while walk.is_waiting(lambda flag: not flag & _STALE):
        # Whatever a shared commit descends from is no latest one.
        walk.step(lambda flag: flag | _STALE if flag & both == both else flag)
    found = {at for at, flag in walk.flags.items() if flag & both == both and not flag & _STALE}
    if len(found) > 1:
        found -= {old for new in found for old in found & ancestors(find, new) if old != new}
    return frozenset(found)


def merge_bases_of_all(find: Lookup, heads: Iterable[CommitId]) -> frozenset[CommitId]:
    """The merge bases of every two of some commits, by one walk instead of one for each pair.

    A commit is a merge base of two heads if both descend from it, and not both from one commit that
    was made on top of it. Where clocks disagreed some may be found that are none.
    """
    bits = {head: 1 << place for place, head in enumerate(sorted(set(heads)))}
    everything = sum(bits.values())
    walk = _Walk(find)
    for head, bit in bits.items():
        walk.reach(head, bit)
    # What lies behind the one commit that all descend from is behind each of them.
    while (last := walk.only_one_waiting()) is None or walk.flags[last] != everything:
        if not walk.step(lambda flag: flag):
            break
    above: dict[CommitId, set[int]] = {}
    for at, flag in walk.flags.items():
        commit = find(at)
        for parent in parents(commit) if commit is not None else ():
            above.setdefault(parent, set()).add(flag)
    return frozenset(
        at for at, flag in walk.flags.items() if _some_meet(flag, above.get(at, frozenset()))
    )


def _some_meet(heads: int, above: Set[int]) -> bool:
    """True if two of some heads, as bits, are together in none of the sets above."""
    if heads & (heads - 1) == 0 or heads in above:
        return False
    left = heads
    while left:
        head = left & -left
        left ^= head
        if reduce(or_, (each for each in above if each & head), 0) != heads:
            return True
    return False


def only_behind(find: Lookup, left: CommitId, right: CommitId) -> set[CommitId]:
    """The commits that `left` descends from and `right` does not, `left` itself included.

    Like `merge_bases` it does not go far beyond the merge bases. Where clocks disagreed it may find
    some commits more than there are, which are behind both.
    """
    walk = _Walk(find)
    walk.reach(left, _LEFT)
    walk.reach(right, _RIGHT)
    while walk.is_waiting(lambda flag: flag == _LEFT):
        walk.step(lambda flag: flag)
    return {at for at, flag in walk.flags.items() if flag == _LEFT}


class _Walk:
    """A walk back through the commit graph, the greatest id first, with flags for each commit."""

    def __init__(self, find: Lookup) -> None:
        self._find = find
        self._waiting: list[_Newest] = []
        self._is_waiting: set[CommitId] = set()
        self.flags: dict[CommitId, int] = {}

    def reach(self, at: CommitId, flag: int) -> None:
        """Come to a commit; if that adds to its flags, it waits to be walked on from."""
        known = self.flags.get(at, 0)
        if known | flag != known and self._find(at) is not None:
            self.flags[at] = known | flag
            if at not in self._is_waiting:
                self._is_waiting.add(at)
                heapq.heappush(self._waiting, _Newest(at))

    def is_waiting(self, test: Callable[[int], bool]) -> bool:
        """True if a commit waits whose flags pass a test."""
        return any(test(self.flags[item.id]) for item in self._waiting)

    def only_one_waiting(self) -> CommitId | None:
        """The commit that waits if no other one does."""
        return self._waiting[0].id if len(self._waiting) == 1 else None

    def step(self, passed_on: Callable[[int], int]) -> bool:
        """Go from the greatest id that waits to its parents, which get the flags passed on.

        Returns:
            False if none was waiting.
        """
        if not self._waiting:
            return False
        at = heapq.heappop(self._waiting).id
        self._is_waiting.remove(at)
        commit = self._find(at)
        for parent in parents(commit) if commit is not None else ():
            self.reach(parent, passed_on(self.flags[at]))
        return True


class _Newest:
    """Turns the order of the heap round."""

    __slots__ = ("id",)

    def __init__(self, at: CommitId) -> None:
        self.id = at

    def __lt__(self, other: _Newest) -> bool:
        return self.id > other.id
