"""The three-way rule for entities that both sides have changed. Pure.

A property that one side changed gets the value of that side. A property that both sides changed to
different values is a conflict. Properties that belong together, a text and the vector that is
computed from it, change together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.dataplane.changes.equality import equal_values
from omnigraph.lang.catalog.model import EntityType

Cells = npt.NDArray[np.bool_]  # by row and column


@dataclass(frozen=True, slots=True, eq=False)
class CellMerge:
    """The merge of some rows, cell by cell.

    Attributes:
        theirs: The cells that get their value; the others keep ours.
        conflicts: The cells that both sides have changed to different values.
    """

    theirs: Cells
    conflicts: Cells


def column_groups(entity: EntityType, columns: Sequence[str]) -> list[list[int]]:
    """The groups of columns that change together, by their places; most have one column."""
    leader = {name: name for name in columns}
    for item in entity.properties:
        if item.embed is not None:
            leader[item.name] = item.embed.source
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(columns):
        groups.setdefault(leader[name], []).append(place)
    return list(groups.values())


def unequal_cells(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Cells:
    """Compare rows cell by cell."""
    found = np.zeros((left.num_rows, len(columns)), bool)
    for place, name in enumerate(columns):
        sides = (side.column(name).combine_chunks() for side in (left, right))
        found[:, place] = ~equal_values(*sides)
    return found


def merge_cells(
    ours: Cells, theirs: Cells, differ: Cells, groups: Sequence[Sequence[int]], *, by_row: bool
) -> CellMerge:
    """Decide cell by cell.

    Args:
        ours: The cells that our side has changed.
        theirs: The cells that their side has changed.
        differ: The cells in which the two sides differ now.
        groups: The columns that change together.
        by_row: Whether all columns of an entity change together.
    """
    together = [range(ours.shape[1])] if by_row else groups
    taken, conflicts = np.zeros_like(ours), np.zeros_like(ours)
    for group in together:
        columns = list(group)
        our_change = ours[:, columns].any(axis=1)
        their_change = theirs[:, columns].any(axis=1)
        unequal = differ[:, columns].any(axis=1)
        forward = np.asarray(their_change & ~our_change & unequal)
        clash = np.asarray(their_change & our_change & unequal)
        taken[:, columns] = forward[:, None]
        conflicts[:, columns] = clash[:, None] & differ[:, columns]
    return CellMerge(taken, conflicts)
