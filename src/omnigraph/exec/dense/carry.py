"""Carrying adjacency over to a later version: what the change touches, and nothing else sorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.exec.dense.csr import Csr, from_degrees, frozen_rows, lower_bounds
from omnigraph.exec.dense.ends import Ends
from omnigraph.exec.dense.step import Step, carried
from omnigraph.exec.view import MISSING, Counts, Handles
from omnigraph.lang.ir.ops import Towards


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """How the edges of a type and the nodes at their ends move between two versions."""

    edge: Step
    source: Step
    target: Step

    @property
    def changes(self) -> int:
        """How much happened."""
        return self.edge.changes + self.source.changes + self.target.changes


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Some edges with their ends, from source to target."""

    sources: Counts
    targets: Counts
    edges: Counts

    def pick(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Entries:
        """Some of them."""
        return Entries(self.sources[mask], self.targets[mask], self.edges[mask])


@dataclass(frozen=True, slots=True, eq=False)
class Turnover:
    """The edges that adjacency loses, by old handles, and those that it wins, by new ones."""

    lost: Entries
    won: Entries


def carried_ends(ends: Ends, steps: Steps, sources: Handles, targets: Handles) -> Ends | None:
    """The ends after a change; `sources` and `targets` are those of `steps.edge.fresh`.

    None when an end is missing, before or after: what is missing may come back.
    """
    if ends.dangling or (sources == MISSING).any() or (targets == MISSING).any():
        return None
    made = []
    ways = (
        (ends.sources, steps.source, sources),
        (ends.targets, steps.target, targets),
    )
    for old, way, fresh in ways:
        values = carried(old, steps.edge, MISSING)
        if way.moves:
            values = way.renumbered(values)
        elif values is old:
            values = old.copy()
        values[steps.edge.fresh] = fresh
        if len(way.gone) and (values == MISSING).any():
            return None
        made.append(values)
    return Ends(made[0], made[1], dangling=False)


def turnover(old: Ends, new: Ends, steps: Steps) -> Turnover:
    """Which edges come and go. An edge that was rewritten with the same ends does neither."""
    before = steps.edge.origins(steps.edge.rewritten)
    after = steps.edge.rewritten
    moved = (_moved(steps.source, old.sources[before]) != new.sources[after]) | (
        _moved(steps.target, old.targets[before]) != new.targets[after]
    )
    lost = np.concatenate([steps.edge.gone, before[moved]])
    won = np.concatenate([steps.edge.born, after[moved]])
    return Turnover(
        Entries(old.sources[lost].astype(np.int64), old.targets[lost].astype(np.int64), lost),
        Entries(new.sources[won].astype(np.int64), new.targets[won].astype(np.int64), won),
    )


def carried_edges(rows: Csr, change: Turnover, steps: Steps, towards: Towards) -> Csr | None:
    """Adjacency with edges, after a change."""
    assert rows.edges is not None
    lost = _oriented(change.lost, towards)
    low = lower_bounds(rows.targets, *_row_ends(rows, lost.sources), lost.targets)
    high = lower_bounds(rows.targets, *_row_ends(rows, lost.sources), lost.targets + 1)
    kept = _shrunk(rows, lower_bounds(rows.edges, low, high, lost.edges), lost.sources)
    moved = _renumbered(kept, steps, towards)
    if moved is None:
        return None
    won = _oriented(change.won, towards)
    order = np.lexsort((won.edges, won.targets, won.sources))
    sources, targets, edges = won.sources[order], won.targets[order], won.edges[order]
    low = lower_bounds(moved.targets, *_row_ends(moved, sources), targets)
    high = lower_bounds(moved.targets, *_row_ends(moved, sources), targets + 1)
    assert moved.edges is not None
    places = lower_bounds(moved.edges, low, high, edges)
    return _grown(moved, places, sources, targets, edges)


def carried_links(
    rows: Csr, change: Turnover, steps: Steps, towards: Towards, old: Ends, new: Ends
) -> Csr | None:
    """Adjacency without edges, after a change."""
    lost = change.lost
    entries = len(old.sources)
    if towards is Towards.BOTH:
        entries = 2 * entries - int((old.sources == old.targets).sum())
    if len(rows.targets) != entries and len(lost.edges):
        # Somewhere several edges connect the same nodes: a link goes with the last of them.
        lost = lost.pick(~_still_linked(lost, steps, new, towards))
    gone = _distinct(_oriented(lost, towards))
    places = lower_bounds(rows.targets, *_row_ends(rows, gone.sources), gone.targets)
    moved = _renumbered(_shrunk(rows, places, gone.sources), steps, towards)
    if moved is None:
        return None
    won = _distinct(_oriented(change.won, towards))
    won = won.pick(~moved.linked(won.sources.astype(np.int32), won.targets.astype(np.int32)))
    places = lower_bounds(moved.targets, *_row_ends(moved, won.sources), won.targets)
    return _grown(moved, places, won.sources, won.targets, None)


# -- the three parts of a change -------------------------------------------------------------------


def _shrunk(rows: Csr, places: Counts, sources: Counts) -> Csr:
    """Without the entries at some places."""
    if not len(places):
        return rows
    degrees = rows.degrees.copy()
    np.subtract.at(degrees, sources, 1)
    edges = None if rows.edges is None else np.delete(rows.edges, places)
    return from_degrees(degrees, np.delete(rows.targets, places), edges)


def _renumbered(rows: Csr, steps: Steps, towards: Towards) -> Csr | None:
    """With the handles of the later version. None when an entry leads to what is gone."""
    row_step, target_step = steps.source, steps.target
    if towards is Towards.IN:
        row_step, target_step = target_step, row_step
    if rows.degrees[row_step.gone].any():
        return None
    targets, edges = rows.targets, rows.edges
    if target_step.moves:
        targets = target_step.renumbered(targets)
        if len(target_step.gone) and (targets == MISSING).any():
            return None
    if edges is not None and len(steps.edge.gone):
        edges = steps.edge.renumbered(edges)
    if row_step.moves:
        return from_degrees(carried(rows.degrees, row_step, 0), targets, edges)
    return frozen_rows(rows.offsets, targets, rows.degrees, edges)


def _grown(
    rows: Csr, places: Counts, sources: Counts, targets: Counts, edges: Counts | None
) -> Csr:
    """With entries before some places; entries for one place are in order."""
    if not len(places):
        return rows
    degrees = rows.degrees.copy()
    np.add.at(degrees, sources, 1)
    whole = None
    if edges is not None and rows.edges is not None:
        whole = np.insert(rows.edges, places, edges)
    return from_degrees(degrees, np.insert(rows.targets, places, targets), whole)


# -- helpers ---------------------------------------------------------------------------------------


def _row_ends(rows: Csr, sources: Counts) -> tuple[Counts, Counts]:
    return rows.offsets[sources], rows.offsets[sources + 1]


def _oriented(entries: Entries, towards: Towards) -> Entries:
    if towards is Towards.OUT:
        return entries
    back = Entries(entries.targets, entries.sources, entries.edges)
    if towards is Towards.IN:
        return back
    back = back.pick(back.sources != back.targets)
    return Entries(
        np.concatenate([entries.sources, back.sources]),
        np.concatenate([entries.targets, back.targets]),
        np.concatenate([entries.edges, back.edges]),
    )


def _distinct(entries: Entries) -> Entries:
    """One entry per pair of nodes, in order."""
    _, first = np.unique((entries.sources << 32) | entries.targets, return_index=True)
    return Entries(entries.sources[first], entries.targets[first], entries.edges[first])


def _moved(step: Step, handles: Handles) -> Counts:
    """The new handles of some old ones, -1 for those that are gone."""
    wide = handles.astype(np.int64)
    return np.where(np.isin(wide, step.gone), MISSING, step.moved(wide))


def _still_linked(
    entries: Entries, steps: Steps, new: Ends, towards: Towards
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether an edge of the later version connects the same nodes."""
    sources = _moved(steps.source, entries.sources.astype(np.int32))
    targets = _moved(steps.target, entries.targets.astype(np.int32))
    flags = np.zeros(steps.source.after + 1, np.bool_)  # the last one serves -1
    flags[sources] = True
    near = np.flatnonzero(flags[new.sources])
    pairs = _pairs(new.sources[near], new.targets[near])
    if towards is not Towards.BOTH:
        return np.isin(_pairs(sources, targets), pairs)
    flags[targets] = True
    near = np.flatnonzero(flags[new.sources])
    pairs = _pairs(new.sources[near], new.targets[near])
    forth, back = _pairs(sources, targets), _pairs(targets, sources)
    return np.isin(forth, pairs) | np.isin(back, pairs)


def _pairs(left: Counts | Handles, right: Counts | Handles) -> Counts:
    packed: Counts = (left.astype(np.int64) << 32) | (right.astype(np.int64) & 0xFFFFFFFF)
    return packed
