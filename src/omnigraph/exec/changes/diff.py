"""The changes of a whole graph between two of its states."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import TypeState, type_state
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.changes.table_changes import ChangeLimits, TableChanges
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.lang.catalog.identity import END_NAMES
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.values import Base
from omnigraph.store.reading.table_diff import TableDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """Two states of a graph, and what to compare of them.

    Attributes:
        older: The state that the changes start from.
        newer: The state that they lead to.
        catalog: The schema of the newer one. Changes have its names and types.
        types: The types to compare, by their table keys there; None for all.
        older_catalog: The schema of the older one; None when it is the same.
    """

    older: GraphVersion
    newer: GraphVersion
    catalog: Catalog
    types: Collection[str] | None = None
    older_catalog: Catalog | None = None


class GraphDiff:
    """The changes between two states. Nothing is read before it is asked for."""

    def __init__(
        self, repo: Repository, request: DiffRequest, limits: ChangeLimits | None = None
    ) -> None:
        """Compare two states of this repository."""
        self._repo = repo
        self._request = request
        self._limits = limits or ChangeLimits()

    def types(self) -> list[EntityType]:
        """The types whose tables are not the same version: nodes by name, then edges by name."""
        catalog, wanted = self._request.catalog, self._request.types
        found = []
        for entity in (*catalog.nodes, *catalog.edges):
            is_wanted = wanted is None or table_key(entity.kind, entity.name) in wanted
            older = self._older(entity)
            if is_wanted and (older is None or older.pin != self._newer(entity).pin):
                found.append(entity)
        return found

    def _older(self, entity: EntityType) -> TypeState | None:
        request = self._request
        return type_state(request.older, request.older_catalog or request.catalog, entity)

    def _newer(self, entity: EntityType) -> TypeState:
        found = type_state(self._request.newer, self._request.catalog, entity)
        assert found is not None, "its catalog has it"
        return found

    def inserts(self) -> Iterator[tuple[EntityType, pa.RecordBatch]]:
        """Yield all entities of the newer state as inserts, nodes before edges."""
        catalog, wanted = self._request.catalog, self._request.types
        for entity in (*catalog.nodes, *catalog.edges):
            if wanted is not None and table_key(entity.kind, entity.name) not in wanted:
                continue
            with storage_errors():
                batches = self._changes(entity).inserts()
            for batch in _read(batches):
                yield entity, batch

    def counts(self) -> dict[str, ChangeCounts]:
        """The numbers of changes by table key; types without changes are left out."""
        found = {}
        for entity in self.types():
            with storage_errors():
                counts = self._changes(entity).counts()
            if counts.total:
                found[table_key(entity.kind, entity.name)] = counts
        return found

    def batches(
        self, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[EntityType, pa.RecordBatch]]:
        """Yield the changes with their images, type by type, each by id.

        Args:
            after: The table key and the id of the last change that is left out, and all before it.
        """
        types = self.types()
        keys = [table_key(entity.kind, entity.name) for entity in types]
        first = keys.index(after[0]) if after is not None and after[0] in keys else 0
        for number, entity in enumerate(types[first:]):
            last = after[1] if after is not None and keys[first + number] == after[0] else None
            with storage_errors():
                batches = self._changes(entity).batches(last)
            for batch in _read(batches):
                yield entity, batch

    def _changes(self, entity: EntityType) -> TableChanges:
        diff = self._repo.type_diff(self._older(entity), self._newer(entity), entity)
        return table_changes(diff, entity, self._limits)


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches; failures of storage become errors of the library."""
    while True:
        with storage_errors():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def table_changes(
    diff: TableDiff, entity: EntityType, limits: ChangeLimits | None = None
) -> TableChanges:
    """The changes of one type, given the rows that two versions of its table do not share."""
    return TableChanges(diff, image_columns(entity), blobs_of(entity), limits or ChangeLimits())


def image_columns(entity: EntityType) -> dict[str, str]:
    """The columns of the images of a type, and what users call them."""
    ends = END_NAMES if entity.kind == "edge" else {}
    return ends | {item.name: item.name for item in entity.properties}


def blobs_of(entity: EntityType) -> list[str]:
    """The columns of a type that hold blobs."""
    return [item.name for item in entity.properties if item.type.base is Base.BLOB]
