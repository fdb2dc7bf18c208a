"""The history of branches, drawn as a graph of lines, as `git log --graph` draws it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from omnigraph.core.lineage import Node
from omnigraph.core.records import Commit
from omnigraph.types import CommitId


def drawn(commits: Sequence[Node], heads: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the graph, newest commit first.

    A lane is a column of the drawing. It leads from a commit down to the next one that is a parent
    of it. A parent that is not among the commits ends its lane.

    Args:
        commits: The commits; a commit stands before its parents.
        heads: The branches whose newest commit a commit is, by its id.
    """
    known = {commit.id for commit in commits}
    lanes: list[str] = []  # the commit that each lane leads to
    for commit in commits:
        if commit.id not in lanes:
            lanes.append(commit.id)
        lane = lanes.index(commit.id)
        marks = " ".join("*" if each == lane else "|" for each in range(len(lanes)))
        yield f"{marks}  {_told(commit, heads.get(commit.id, ()))}"
        yield from _go_on(lanes, lane, commit, known)


def _go_on(lanes: list[str], lane: int, commit: Node, known: set[CommitId]) -> Iterator[str]:
    """Lead the lane of a commit to its parents, and join lanes that lead to the same commit."""
    merged, parent = commit.merged_parent_id, commit.parent_id
    if merged is not None and merged in known and merged not in lanes:
        yield "| " * lane + "|\\" + " \\" * (len(lanes) - lane - 1)
        lanes.insert(lane + 1, merged)
    if parent is None or parent not in known:
        if lane < len(lanes) - 1:
            yield "| " * lane + " /" * (len(lanes) - lane - 1)
        del lanes[lane]
        return
    lanes[lane] = parent
    first = lanes.index(parent)
    last = len(lanes) - 1 - lanes[::-1].index(parent)
    if first != last:
        yield "| " * first + "|" + "_|" * (last - first - 1) + "/" + " /" * (len(lanes) - last - 1)
        del lanes[last]


def _told(commit: Node, heads: Sequence[str]) -> str:
    if not isinstance(commit, Commit):
        return f"{commit.id}  of a deleted branch"
    names = f"({', '.join(heads)}) " if heads else ""
    actor = "" if commit.actor is None else f" by {commit.actor}"
    message = "" if commit.message is None else f": {commit.message.splitlines()[0]}"
    return f"{commit.id}  {names}{commit.kind}{actor}{message}"
