"""The sorted ids of edges, built when first asked for: handles of edges are in order of age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.exec.dense.disk_cache import Arrays, numbers
from omnigraph.exec.dense.id_index import IdIndex, sorted_order
from omnigraph.exec.dense.version_delta import VersionDelta, derived_array, derived_column
from omnigraph.exec.view import Handles


@dataclass(frozen=True, slots=True, eq=False)
class EdgeIds:
    """The ids of edges: `order` leads from places in the order to handles, `rank` back."""

    index: IdIndex
    order: Handles
    rank: Handles

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.index.nbytes + self.order.nbytes + self.rank.nbytes


def edge_ids(ids: pa.Array) -> EdgeIds:
    """Put the ids of edges, given by handle, in order."""
    order = sorted_order(ids)
    if order is None:
        places = np.arange(len(ids), dtype=np.int32)
        return EdgeIds(IdIndex(ids), places, places)
    return _ranked(IdIndex(ids.take(pa.array(order))), order.astype(np.int32))


def derived_edge_ids(known: EdgeIds, delta: VersionDelta, ids: pa.Array) -> EdgeIds:
    """The order of the ids, given by handle, after a delta."""
    kept = delta.forward_map()[known.order] if len(delta.deleted) else known.order
    fresh = ids.take(pa.array(delta.inserted))
    order = sorted_order(fresh)
    inserted = delta.inserted if order is None else delta.inserted[order]
    fresh = fresh if order is None else fresh.take(pa.array(order))
    below = known.index.lower_bounds(fresh)
    deleted = np.sort(known.rank[delta.deleted]).astype(np.int64)
    # The same delta, by places in the order instead of handles.
    places = below - np.searchsorted(deleted, below) + np.arange(len(inserted))
    ranked = VersionDelta(delta.before, delta.after, deleted, places, np.empty(0, np.int64))
    index = known.index.changed(derived_column(known.index.ids, ranked, fresh), ranked)
    return _ranked(index, derived_array(kept, ranked, inserted))


def edge_id_arrays(known: EdgeIds) -> Arrays:
    """Returns the arrays in which it is saved."""
    return {
        "ids": known.index.ids,
        "keys": pa.array(known.index.keys),
        "order": pa.array(known.order),
        "rank": pa.array(known.rank),
    }


def saved_edge_ids(arrays: Arrays, size: int) -> EdgeIds | None:
    """The order of the ids as it was saved; None when it does not fit."""
    if any(len(arrays[name]) != size for name in ("ids", "keys", "order", "rank")):
        return None
    index = IdIndex(arrays["ids"], numbers(arrays["keys"]))
    return EdgeIds(index, numbers(arrays["order"]), numbers(arrays["rank"]))


def _ranked(index: IdIndex, order: Handles) -> EdgeIds:
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return EdgeIds(index, order, rank)
