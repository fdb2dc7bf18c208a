"""The difference of two states of a graph, as the facade shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import pyarrow as pa

from omnigraph.core.layout import table_key
from omnigraph.dataplane.changes.table_changes import Operation
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.changes.diff import GraphDiff
from omnigraph.lang.catalog.model import EntityType
from omnigraph.results.changes import Change, changes_text


class Diff:
    """The changes that lead from one state of a graph to another.

    Nothing is read before it is asked for, and nothing is kept: iterating twice reads twice. The
    order is nodes before edges, types by name, entities by id; of a type with millions of changes,
    parts of the ids follow one another.

    Example:
        ```python
        diff = graph.diff(graph.snapshot().commit, "main")
        assert diff.is_empty
        ```

    Attributes:
        older: The id of the commit that the changes start from.
        newer: The id of the commit that they lead to.
    """

    def __init__(
        self, diff: GraphDiff, older: str, newer: str, operations: frozenset[str] | None
    ) -> None:
        """Show a diff; use `Graph.diff` instead."""
        self._diff = diff
        self._operations = operations
        self.older = older
        self.newer = newer

    def __repr__(self) -> str:
        return f"Diff(older={self.older!r}, newer={self.newer!r})"

    @cached_property
    def counts(self) -> Mapping[str, ChangeCounts]:
        """The numbers of changes by type (`node:Person`); types without changes are left out."""
        counts = self._diff.counts()
        if self._operations is None:
            return counts
        chosen = {key: self._chosen(item) for key, item in counts.items()}
        return {key: item for key, item in chosen.items() if item.total}

    @property
    def is_empty(self) -> bool:
        """True if nothing has changed."""
        return not self.counts

    def __iter__(self) -> Iterator[Change]:
        return self.after(None)

    def after(self, position: tuple[str, str] | None) -> Iterator[Change]:
        """Yield the changes that follow one of them, given by its type (`node:Person`) and id.

        Example:
            ```python
            everything = list(graph.diff("main~1", "main"))
            first = everything[0]
            rest = graph.diff("main~1", "main").after((f"{first.kind}:{first.type}", first.id))
            assert list(rest) == everything[1:]
            ```
        """
        for entity, batch in self._batches(position):
            yield from _changes(entity, batch)

    def newer_state(self) -> Iterator[Change]:
        """Yield all entities of the newer state as inserts, whether they have changed or not.

        Nodes come before edges, and the entities of a type in the order in which they are stored.
        """
        for entity, batch in self._diff.inserts():
            yield from _changes(entity, batch)

    def newer_state_batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what `newer_state` yields as Arrow batches, in the form of `batches`."""
        for entity, batch in self._diff.inserts():
            yield table_key(entity.kind, entity.name), batch

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the changes as Arrow batches, with the type of each (`node:Person`).

        The columns are `operation`, `id`, `changed` (a list of names), and `before` and `after`
        (structs of the properties of the type).
        """
        for entity, batch in self._batches():
            yield table_key(entity.kind, entity.name), batch

    def to_arrow(self) -> dict[str, pa.Table]:
        """All changes as Arrow tables, by type; the columns are those of `batches`."""
        found: dict[str, list[pa.RecordBatch]] = {}
        for key, batch in self.batches():
            found.setdefault(key, []).append(batch)
        return {key: pa.Table.from_batches(batches) for key, batches in found.items()}

    def to_text(self, *, color: bool = False) -> str:
        """All changes as text: a line with the numbers of each type, then a line per entity."""
        return changes_text(self, self.counts, color=color)

    def __str__(self) -> str:
        return self.to_text()

    def _batches(
        self, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[EntityType, pa.RecordBatch]]:
        for entity, batch in self._diff.batches(after):
            if self._operations is None:
                yield entity, batch
                continue
            kept = [item in self._operations for item in batch.column(0).to_pylist()]
            chosen = batch.filter(pa.array(kept, pa.bool_()))
            if chosen.num_rows:
                yield entity, chosen

    def _chosen(self, counts: ChangeCounts) -> ChangeCounts:
        chosen = self._operations or frozenset()
        return ChangeCounts(
            inserted=counts.inserted if Operation.INSERT in chosen else 0,
            updated=counts.updated if Operation.UPDATE in chosen else 0,
            deleted=counts.deleted if Operation.DELETE in chosen else 0,
        )


def _changes(entity: EntityType, batch: pa.RecordBatch) -> Iterator[Change]:
    for row in batch.to_pylist():
        yield Change(
            kind=entity.kind,
            type=entity.name,
            id=row["id"],
            operation=row["operation"],
            changed=tuple(row["changed"]),
            before=row["before"],
            after=row["after"],
        )


def operation(name: object) -> Operation:
    """The operation of this name.

    Raises:
        InvalidInput: There is no such operation.
    """
    try:
        return Operation(name)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(item.value for item in Operation)
        text = f"there is no operation {name!r:.80}; known: {known}"
        raise InvalidInput(Code.INPUT_INVALID, text) from None
