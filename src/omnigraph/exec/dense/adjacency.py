"""The adjacency of one edge type between two pinned node types, built when first asked for.

Adjacency without edges (`links`) and with them (`edges`) are built apart, since most queries need
only the former. Both come from the endpoints of the edges, which cost the most: two lookups of ids
per edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.core.storage_errors import storage_errors
from omnigraph.exec import tuning
from omnigraph.exec.dense.cache import Slot, StructureCache
from omnigraph.exec.dense.csr import Csr, distinct_rows, edge_rows
from omnigraph.exec.dense.disk_cache import Arrays, numbers
from omnigraph.exec.dense.endpoints import Endpoints, stored_endpoints
from omnigraph.exec.dense.incremental import (
    VersionDeltas,
    derived_edges,
    derived_endpoints,
    derived_links,
    edge_delta,
)
from omnigraph.exec.dense.type_columns import TypeColumns
from omnigraph.exec.dense.version_delta import VersionDelta
from omnigraph.exec.large_text import joined
from omnigraph.lang.catalog.identity import ENDS
from omnigraph.lang.ir.ops import Towards
from omnigraph.runtime import telemetry

T = TypeVar("T")

_MARK_BYTES: Final = 8


class AdjacencyContext(Protocol):
    """The other versions of an adjacency, as its cache has them."""

    def other_versions(self, adjacency: Adjacency) -> Iterable[Adjacency]:
        """Adjacency of other versions of the same types that is in use or in memory."""
        ...

    def saved_versions(self, adjacency: Adjacency) -> Iterable[Adjacency]:
        """Adjacency of older versions that is on disk, mapped."""
        ...


class Adjacency:
    """The adjacency of one edge type in one snapshot. Thread-safe."""

    def __init__(
        self,
        edge: TypeColumns,
        source: TypeColumns,
        target: TypeColumns,
        cache: StructureCache,
        context: AdjacencyContext,
    ) -> None:
        """Takes the columns of the edge type and of the node types at its ends."""
        self.edge = edge
        self.source = source
        self.target = target
        self._context = context
        self._loaded = False
        self.ends: Slot[Endpoints] = cache.slot(self._build_endpoints, _endpoints_bytes)
        self.links: dict[Towards, Slot[Csr]] = {
            towards: cache.slot(partial(self._build_links, towards), _csr_bytes)
            for towards in Towards
        }
        self.edges: dict[Towards, Slot[Csr]] = {
            towards: cache.slot(partial(self._build_edges, towards), _csr_bytes)
            for towards in Towards
        }

    # -- the ends ----------------------------------------------------------------------------------

    def _build_endpoints(self) -> Endpoints:
        return self._derived_endpoints() or self._saved_endpoints() or self._stored_endpoints()

    def _stored_endpoints(self) -> Endpoints:
        telemetry.count("dense.ends_read")
        order = self.edge.order()
        with storage_errors():
            table = self.edge.table()
            ends = stored_endpoints(table, order, self.source.index, self.target.index)
        self._save("ends", lambda: _endpoints_arrays(ends))
        return ends

    def _derived_endpoints(self) -> Endpoints | None:
        found = self._nearest_version(lambda other: other.ends)
        if found is None:
            return None
        other, deltas = found
        known = other.ends.peek()
        if known is None:
            return None
        fresh = deltas.edge.written
        with storage_errors():
            rows = self.edge.entity_index.get().rows.of(fresh).tolist()
            texts = self.edge.table().take(rows, list(ENDS))
        made = derived_endpoints(
            known,
            deltas,
            self.source.index.find_array(joined(texts.column(0))),
            self.target.index.find_array(joined(texts.column(1))),
        )
        if made is not None:
            telemetry.count("dense.ends_derived")
            self.ends.supersedes(other.ends)
        return made

    def _saved_endpoints(self) -> Endpoints | None:
        def decode(arrays: Arrays) -> Endpoints | None:
            sources, targets = numbers(arrays["sources"]), numbers(arrays["targets"])
            if len(sources) != self.edge.size or len(targets) != self.edge.size:
                return None
            return Endpoints(sources, targets, dangling=bool(arrays["dangling"][0].as_py()))

        return self._saved("ends", decode)

    # -- adjacency ---------------------------------------------------------------------------------

    def _build_links(self, towards: Towards) -> Csr:
        file = f"links-{towards.value}"
        found = self._derived_rows(towards, lambda other: other.links[towards])
        if found is None:
            found = self._saved_rows(file, towards)
        if found is None:
            sources, targets, _ = self.ends.get().entries(towards)
            rows = found = distinct_rows(sources, targets, *self._shape(towards))
            self._save(file, lambda: _csr_arrays(rows))
        return found

    def _build_edges(self, towards: Towards) -> Csr:
        file = f"edges-{towards.value}"
        found = self._derived_rows(towards, lambda other: other.edges[towards])
        if found is None:
            found = self._saved_rows(file, towards)
        if found is None:
            rows = found = edge_rows(*self.ends.get().entries(towards), *self._shape(towards))
            self._save(file, lambda: _csr_arrays(rows))
        links = self.links[towards].peek()
        if links is not None and len(links.targets) == len(found.targets):
            # No two edges connect the same nodes: the links serve both.
            return Csr(links.offsets, links.targets, links.degrees, found.edges)
        return found

    def _derived_rows(
        self, towards: Towards, slot_of: Callable[[Adjacency], Slot[Csr]]
    ) -> Csr | None:
        found = self._nearest_version(slot_of)
        if found is None:
            return None
        other, deltas = found
        rows, old = slot_of(other).peek(), other.ends.peek()
        if rows is None or old is None:
            return None
        share = self.edge.size // tuning.active.derived_edges_share
        if deltas.edge.changes > max(tuning.active.derived_edges_min, share):
            return None
        new = self.ends.get()
        if old.dangling or new.dangling:
            return None
        change = edge_delta(old, new, deltas)
        if rows.edges is None:
            made = derived_links(rows, change, deltas, towards, old, new)
        else:
            made = derived_edges(rows, change, deltas, towards)
        if made is not None:
            telemetry.count("dense.rows_derived")
            slot_of(self).supersedes(slot_of(other))
        return made

    def _nearest_version(
        self, slot_of: Callable[[Adjacency], Slot[Endpoints] | Slot[Csr]]
    ) -> tuple[Adjacency, VersionDeltas] | None:
        """The nearest version that has a structure in memory or on disk, and the deltas from it."""
        ways = [dict(each.known_versions()) for each in (self.edge, self.source, self.target)]
        best = self._nearest(ways, slot_of, self._context.other_versions(self))
        return best or self._nearest(ways, slot_of, self._context.saved_versions(self))

    def _nearest(
        self,
        ways: Sequence[Mapping[TypeColumns, VersionDelta]],
        slot_of: Callable[[Adjacency], Slot[Endpoints] | Slot[Csr]],
        candidates: Iterable[Adjacency],
    ) -> tuple[Adjacency, VersionDeltas] | None:
        best: tuple[Adjacency, VersionDeltas] | None = None
        for other in candidates:
            if other is self or slot_of(other).peek() is None or other.ends.peek() is None:
                continue
            edge, source, target = (
                way.get(each)
                for way, each in zip(ways, (other.edge, other.source, other.target), strict=True)
            )
            if edge is None or source is None or target is None:
                continue
            deltas = VersionDeltas(edge, source, target)
            if best is None or deltas.changes < best[1].changes:
                best = (other, deltas)
        return best

    def _shape(self, towards: Towards) -> tuple[int, int]:
        """The number of rows of adjacency, and the bound below which its targets are."""
        if towards is Towards.IN:
            return self.target.size, self.source.size
        return self.source.size, self.target.size

    # -- on disk -----------------------------------------------------------------------------------

    def load_saved(self) -> None:
        """Maps the structures that are on disk, once."""
        if self._loaded or self.edge.place("") is None:
            return
        self._loaded = True
        ends = self._saved_endpoints()
        if ends is None:
            return
        self.ends.put(ends)
        for towards in Towards:
            for slots, kind in ((self.links, "links"), (self.edges, "edges")):
                rows = self._saved_rows(f"{kind}-{towards.value}", towards)
                if rows is not None:
                    slots[towards].put(rows)

    def is_available(self) -> bool:
        """True if the endpoints, from which all else follows, are there or derivable."""
        if self.ends.peek() is not None:
            return True
        if any(slot.peek() is not None for slot in self.links.values()):
            return True
        types = (self.edge, self.source, self.target)
        if not all(each.is_available() for each in types):
            return False
        if any(other.ends.peek() is not None for other in self._context.other_versions(self)):
            return True
        name = self._name("ends")
        return name is not None and self.edge.is_saved(name)

    def _name(self, what: str) -> str | None:
        """The name of a file of the edges; it includes the states of the nodes at both ends."""
        if self.edge.place("") is None:
            return None
        marks = [each.cache_key for each in (self.source, self.target)]
        if None in marks:
            return None
        digest = blake2b("\n".join(map(str, marks)).encode(), digest_size=_MARK_BYTES)
        return f"{what}-{digest.hexdigest()}"

    def _saved(self, what: str, decode: Callable[[Arrays], T | None]) -> T | None:
        name = self._name(what)
        return None if name is None else self.edge.saved(name, decode)

    def _save(self, what: str, arrays: Callable[[], Arrays]) -> None:
        name = self._name(what)
        if name is not None:
            self.edge.save(name, arrays)

    def _saved_rows(self, what: str, towards: Towards) -> Csr | None:
        rows, _ = self._shape(towards)

        def decode(arrays: Arrays) -> Csr | None:
            offsets, targets = numbers(arrays["offsets"]), numbers(arrays["targets"])
            edges = numbers(arrays["edges"]) if "edges" in arrays else None
            if len(offsets) != rows + 1 or len(targets) != offsets[-1]:
                return None
            if edges is not None and len(edges) != len(targets):
                return None
            return Csr(offsets, targets, np.diff(offsets), edges)

        return self._saved(what, decode)


def _endpoints_arrays(ends: Endpoints) -> Arrays:
    return {
        "sources": pa.array(ends.sources),
        "targets": pa.array(ends.targets),
        "dangling": pa.array([ends.dangling]),
    }


def _csr_arrays(rows: Csr) -> Arrays:
    arrays = {"offsets": pa.array(rows.offsets), "targets": pa.array(rows.targets)}
    if rows.edges is not None:
        arrays["edges"] = pa.array(rows.edges)
    return arrays


def _endpoints_bytes(ends: Endpoints) -> int:
    return ends.nbytes


def _csr_bytes(rows: Csr) -> int:
    return rows.nbytes
