"""The input and the output of decoders, and the members of a line that wrap an entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.catalog.model import Catalog, EntityKind, EntityType

DATA: Final = "data"
# The member that names the type, by the kind of the type.
TYPE_FIELDS: Final[Mapping[EntityKind, str]] = {"node": "type", "edge": "edge"}
# The members that name the ends of an edge, and their columns.


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Rows of one type from one block of the input, in the order of the input.

    Attributes:
        entity: Their type.
        rows: Every column of the type's table, in the table's order and types, and all of them
            nullable. `id` is what the input says, null where it says nothing; a key has not been
            turned into an id yet. What the input does not name is null.
        lines: Where each row comes from: the 1-based number of its line or row within its split.
        absent: For the columns of interest, which rows do not name the property at all (as
            opposed to naming it null). A column that is not listed is named by every row.
        claimed: Ids of entities whose line breaks a rule of the format and is not among the rows.
            They exist as far as others are concerned, or each edge to them would be blamed, too.
    """

    entity: EntityType
    rows: pa.Table
    lines: npt.NDArray[np.int64]
    absent: Mapping[str, pa.BooleanArray] = field(default_factory=dict)
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSpec:
    """The types and bounds that a decoder works with. Picklable.

    Attributes:
        catalog: The types that the input may have.
        absences: Per table key, the columns for which `Decoded.absent` is wanted.
        line_bytes_max: The longest line that is read.
    """

    catalog: Catalog
    absences: Mapping[str, frozenset[str]] = field(default_factory=dict)
    line_bytes_max: int = 32 << 20


@dataclass(slots=True)
class DecodeStats:
    """Counts of what a decoder has read of a split so far."""

    lines: int = 0  # of the split, blank ones included; rows for formats that have no lines
    bytes: int = 0  # of the file, as stored
    rows: int = 0  # decoded


def joined(parts: Sequence[Decoded]) -> Decoded:
    """Rows of one type that follow each other, as one."""
    if len(parts) == 1:
        return parts[0]
    absent = {}
    for name in sorted({name for part in parts for name in part.absent}):
        pieces = [
            part.absent[name] if name in part.absent else pa.repeat(False, part.rows.num_rows)
            for part in parts
        ]
        absent[name] = pa.concat_arrays(pieces)
    return Decoded(
        entity=parts[0].entity,
        rows=pa.concat_tables([part.rows for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        absent=absent,
        claimed=tuple(id_ for part in parts for id_ in part.claimed),
    )
