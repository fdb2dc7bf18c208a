"""Results of merges and resets, with tables of conflicts and files of resolutions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.exec.merge.conflicts import Choice, MergeConflict
from omnigraph.exec.merge.resolution_file import template
from omnigraph.results.commits import Commit

CONFLICT_COLUMNS: Final = ("conflict", "entity", "property", "base", "ours", "theirs", "choice")
_CELL_CHARACTERS_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The result of a merge, done or only planned.

    Attributes:
        outcome: `already_up_to_date`, `fast_forward` or `merged`.
        commit: The commit that it made; None for a dry run, and when there was nothing to do.
        source: The branch that was merged; of a revert the commit that was taken back.
        into: The branch that it was merged into.
        base: The commit from which both sides have changed since; of several, the latest.
        counts: What it changes on the branch that it is merged into, by type (`node:Person`).
            A type that was loaded anew as a whole is not compared with what it replaces by a
            fast-forward: its rows count as deleted and inserted.
        conflicts: What stands in its way; only a dry run has any, otherwise they are an error.
        settled: The conflicts that `resolve` has settled, each with its choice.
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
        branch_deleted: The source was deleted afterwards.
        branch_delete_error: Why it was not, although that was asked for.
    """

    outcome: str
    commit: Commit | None
    source: str
    into: str
    base: str
    counts: Mapping[str, ChangeCounts]
    conflicts: tuple[MergeConflict, ...] = ()
    settled: tuple[tuple[MergeConflict, Choice], ...] = ()
    replayed: bool = False
    branch_deleted: bool = False
    branch_delete_error: str | None = None

    def __str__(self) -> str:
        count = len(self.conflicts)
        found = self.outcome.replace("_", " ")
        if count:
            found = "1 conflict" if count == 1 else f"{count:,} conflicts"
        lines = [f"{self.source} into {self.into}: {found}"]
        for key, counts in self.counts.items():
            numbers = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
            lines.append(f"  {key}  " + " ".join(f"{s}{n:,}" for s, n in numbers if n))
        lines += [f"  {item.kind.value}: {item.message}" for item in self.conflicts]
        return "\n".join(lines)

    def conflict_table(self) -> str:
        """The conflicts as a table for people; the settled ones first, with their choices."""
        return _aligned([CONFLICT_COLUMNS, *self.conflict_rows()])

    def conflict_rows(self) -> list[tuple[str, ...]]:
        """The rows of that table, with a cell for each of `CONFLICT_COLUMNS`."""
        rows: list[tuple[str, ...]] = []
        for conflict, choice in self.settled:
            rows += _table_rows(conflict, choice if isinstance(choice, str) else "value")
        for conflict in self.conflicts:
            rows += _table_rows(conflict, "")
        return rows

    def write_resolutions(self, path: str | os.PathLike[str]) -> int:
        """Write a file of resolutions, to be completed and given to `resolve=`.

        It has one line of JSON for each conflict: base, ours and theirs, the `choices` that can
        settle it, and a `choice`, which is empty for conflicts that are open. With the choice
        `value`, the field `value` has the values by property.

        Example:
            ```python
            graph.branches.create("draft")
            for branch, age in (("draft", 40), ("main", 50)):
                text = f'query q() {{ update Person set {{ age: {age} }} where name = "Ada" }}'
                graph.mutate(text, branch=branch)
            found = graph.branches.merge("draft", dry_run=True)
            assert found.write_resolutions("choices.jsonl") == 1
            with open("choices.jsonl") as file:
                lines = file.read().replace('"choice": null', '"choice": "theirs"')
            with open("choices.jsonl", "w") as file:
                file.write(lines)
            done = graph.branches.merge("draft", resolve="choices.jsonl")
            assert done.outcome == "merged"
            ```

        Args:
            path: The file; one that exists is replaced.

        Returns:
            The number of conflicts that are open.
        """
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(template(self.conflicts, self.settled))
        return len(self.conflicts)


def _table_rows(conflict: MergeConflict, choice: str) -> Iterator[tuple[str, ...]]:
    """The rows about one conflict: one for each property that it is about, else one."""
    entity = f"{conflict.type} {conflict.id!r}"
    states = (conflict.base, conflict.ours, conflict.theirs)
    named = [name for name in conflict.properties if any(s and name in s for s in states)]
    if not named:
        yield conflict.kind.value, entity, "", *map(_state, states), choice
    for number, name in enumerate(named):
        cells = [_cell("absent" if state is None else state.get(name)) for state in states]
        first = (conflict.kind.value, entity) if not number else ("", "")
        yield *first, name, *cells, choice if not number else ""


def _state(state: Mapping[str, Any] | None) -> str:
    return "absent" if state is None else _cell(", ".join(f"{k}: {v}" for k, v in state.items()))


def _cell(value: object) -> str:
    text = "null" if value is None else " ".join(str(value).split())
    is_long = len(text) > _CELL_CHARACTERS_MAX
    return text[: _CELL_CHARACTERS_MAX - 1] + "…" if is_long else text


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    return "".join(_row(line, widths) for line in lines)


def _row(cells: Iterable[str], widths: Sequence[int]) -> str:
    texts = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(texts).rstrip() + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetResult:
    """The result of a reset, done or tried.

    Attributes:
        branch: The branch.
        to: The commit whose state it has now.
        former_head: The commit where it stood before; still in its history.
        commit: The commit that it made; None for a dry run, and when there was nothing to do.
        counts: What it changes, by type (`node:Person`).
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
    """

    branch: str
    to: str
    former_head: str
    commit: Commit | None
    counts: Mapping[str, ChangeCounts]
    replayed: bool = False
