"""The states of many successive commits from one read of the manifest.

The manifest keeps a row for every version of a table that was ever published, and says of none
which commit published it. A commit publishes one version of a table at most, and later commits
publish later ones. So where as many versions lie between two states as commits, each commit has
published the next one; and where none does, none has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import VERSION_KIND, VersionRecord, decode
from omnigraph.types import CommitId

PUBLISHED: Final = f"object_type = '{VERSION_KIND}'"
# A commit of the branch, and the version of the manifest that published it.
Published = tuple[CommitId, int]


def states_between(
    first: GraphVersion, last: GraphVersion, commits: Sequence[Published], rows: pa.Table
) -> list[GraphVersion] | None:
    """The states of the commits that lead from one state to another, that one included.

    Args:
        first: The state that the first commit was made on.
        last: The state of the last commit.
        commits: The commits, oldest first; none of them changes the schema.
        rows: The rows of published versions that the manifest has at the last state.

    Returns:
        The states, or None when the rows do not show them.
    """
    if first.incarnation != last.incarnation or first.schema_digest != last.schema_digest:
        return None
    if first.tables.keys() != last.tables.keys():
        return None
    steps = {}
    for key, pin in first.tables.items():
        end = last.tables[key]
        if pin == end:
            continue
        found = _versions(rows, pin, end)
        if found is None or len(found) != len(commits):
            return None
        steps[key] = found
    states = []
    for number, (commit, version) in enumerate(commits):
        changed = {key: pins[number] for key, pins in steps.items()}
        tables: Mapping[str, TablePin] = MappingProxyType({**first.tables, **changed})
        states.append(replace(first, head=commit, manifest_version=version, tables=tables))
    return states


def _versions(rows: pa.Table, first: TablePin, last: TablePin) -> list[TablePin] | None:
    """The versions of a table that were published after one pin and up to another, ascending."""
    if first.path != last.path:
        return None
    numbers = rows.column("table_version")
    is_between = pc.and_(
        pc.and_(pc.greater(numbers, first.version), pc.less_equal(numbers, last.version)),
        pc.equal(rows.column("location"), first.path),
    )
    pins = [
        TablePin(
            table_key=first.table_key,
            path=record.location,
            version=record.version,
            table_branch=record.table_branch,
            row_count=record.row_count,
        )
        for record in decode(rows.filter(is_between))
        if isinstance(record, VersionRecord)
    ]
    pins.sort(key=lambda pin: pin.version)
    is_plain = all(one.version < other.version for one, other in pairwise(pins))
    return pins if is_plain and pins and pins[-1] == last else None
