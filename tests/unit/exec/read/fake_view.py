"""A view made of dictionaries: slow, small, obviously right."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.exec.view import Counts, Handles, Mask, NeighbourSlices
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards
from omnigraph.testing.naive.graph import ModelGraph, column_type, entity_type


class FakeView:
    """Implements `GraphView` over the rows of a model graph.

    With `shuffled`, handles are in no relation to ids, as in a view that numbers what it meets.
    """

    def __init__(self, catalog: Catalog, graph: ModelGraph, *, shuffled: bool = False) -> None:
        self.catalog = catalog
        self.graph = graph
        self.shuffled = shuffled
        self.asked: list[str] = []
        self.sources = 0  # of how many nodes the neighbours were asked for
        self.ids = {key: self._ordered(list(rows)) for key, rows in graph.tables.items()}
        self.places = {
            key: {entity_id: place for place, entity_id in enumerate(ids)}
            for key, ids in self.ids.items()
        }

    def _ordered(self, ids: list[str]) -> list[str]:
        ids = sorted(ids, key=str.encode)
        return ids[1::2] + ids[::2] if self.shuffled else ids

    def size(self, entity: EntityRef) -> int:
        return len(self.ids.get(entity.table_key, ()))

    def find(self, entity: EntityRef, ids: Sequence[str]) -> Handles:
        self.asked.append("find")
        places = self.places.get(entity.table_key, {})
        return np.array([places.get(entity_id, -1) for entity_id in ids], np.int32)

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        self.asked.append(f"take {entity.name}.{column}")
        ids = self.ids.get(entity.table_key, [])
        rows = self.graph.rows(entity)
        wanted = range(len(ids)) if handles is None else handles.tolist()
        values = [None if place < 0 else rows[ids[place]][column] for place in wanted]
        declared = entity_type(self.catalog, entity.table_key)
        return pa.array(values, arrow_type(column_type(declared, column)))

    def rank(self, entity: EntityRef, handles: Handles) -> Counts | Handles:
        if not self.shuffled:
            return handles
        ids = self.ids.get(entity.table_key, [])
        ordered = {each: place for place, each in enumerate(sorted(ids, key=str.encode))}
        return np.array([ordered[ids[each]] if each >= 0 else -1 for each in handles], np.int64)

    def edges(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        self.asked.append("edges")
        declared = self.catalog.edge_by_name[edge.name]
        ends = (f"node:{declared.source}", f"node:{declared.target}")
        start, end = ends if towards is not Towards.IN else ends[::-1]
        counts: list[int] = []
        found: list[tuple[int, int]] = []
        for source in sources.tolist():
            before = len(found)
            node = self.ids[start][source]
            for edge_id, row in self.graph.rows(edge).items():
                place = self.places[edge.table_key][edge_id]
                if towards is not Towards.IN and row["src"] == node:
                    found.append((self.places[end][str(row["dst"])], place))
                elif towards is not Towards.OUT and row["dst"] == node:
                    found.append((self.places[end][str(row["src"])], place))
            counts.append(len(found) - before)
        targets = np.array([pair[0] for pair in found], np.int32)
        return NeighbourSlices(
            _ints(counts), targets, np.array([pair[1] for pair in found], np.int32)
        )

    def neighbours(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        self.asked.append("neighbours")
        self.sources += len(sources)
        slices = self.edges(edge, towards, sources)
        declared = self.catalog.edge_by_name[edge.name]
        key = f"node:{declared.source if towards is Towards.IN else declared.target}"
        parts = np.split(slices.targets, np.cumsum(slices.counts)[:-1]) if len(sources) else []
        each = [sorted(set(part.tolist()), key=lambda one: self.ids[key][one]) for part in parts]
        targets = np.array([target for part in each for target in part], np.int32)
        return NeighbourSlices(_ints([len(part) for part in each]), targets)

    def degrees(self, edge: EntityRef, towards: Towards, sources: Handles | None) -> Counts:
        if sources is None:
            declared = self.catalog.edge_by_name[edge.name]
            end = declared.target if towards is Towards.IN else declared.source
            sources = np.arange(len(self.ids[f"node:{end}"]), dtype=np.int32)
        found = self.neighbours(edge, towards, sources).counts
        self.asked[-2:] = ["degrees"]
        return found

    def linked(self, edge: EntityRef, towards: Towards, sources: Handles, targets: Handles) -> Mask:
        slices = self.neighbours(edge, towards, sources)
        parts = np.split(slices.targets, np.cumsum(slices.counts)[:-1]) if len(sources) else []
        pairs: Any = zip(targets.tolist(), parts, strict=True)
        return np.array([target in part for target, part in pairs], np.bool_)


class FakeDense(FakeView):
    """A view that also keeps what is made of its columns."""

    def __init__(self, catalog: Catalog, graph: ModelGraph) -> None:
        super().__init__(catalog, graph)
        self.kept: dict[tuple[str, ...], Any] = {}

    def cells(self, entity: EntityRef, column: str, handles: Sequence[int]) -> list[Any]:
        return list(self.take(entity, column, np.array(handles, np.int32)).to_pylist())

    def derived(
        self,
        entity: EntityRef,
        column: str,
        kind: str,
        build: Callable[[Any], Any],
        size: Callable[[Any], int],
        _codec: object = None,
    ) -> Any:
        key = (entity.table_key, column, kind)
        if key not in self.kept:
            self.kept[key] = build(None)
            assert size(self.kept[key]) > 0
        return self.kept[key]


def _ints(values: list[int]) -> Counts:
    return np.array(values, np.int64)
