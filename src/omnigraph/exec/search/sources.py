"""Text indexes and vectors of columns: kept by the view, or made for it here."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.dense.type_columns import Codec, PreviousStructure
from omnigraph.exec.search.nearest import Matrix, Vectors
from omnigraph.exec.search.text_index import TextIndex
from omnigraph.exec.search.tokens import rules
from omnigraph.exec.view import Counts, Handles, Mask
from omnigraph.lang.ir.expr import EntityRef

T = TypeVar("T")

_VECTORS: Final = "vectors"


class Columns(Protocol):
    """The part of a view that search reads."""

    def size(self, entity: EntityRef) -> int:
        """The number of entities of a type."""
        ...

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        """The values of a column, of the whole type for None."""
        ...

    def rank(self, entity: EntityRef, handles: Handles) -> Counts | Handles:
        """Numbers that sort as the ids of the entities do."""
        ...


@runtime_checkable
class CachingView(Protocol):
    """A view that keeps what is derived from its columns, for every view with the same pin."""

    def vectors(self, entity: EntityRef, column: str) -> tuple[Matrix, Mask]:
        """The vectors of a whole type as a matrix, and which entities have one."""
        ...

    def derived(
        self,
        entity: EntityRef,
        column: str,
        kind: str,
        build: Callable[[PreviousStructure[T] | None], T],
        size: Callable[[T], int],
        codec: Codec[T] | None,
    ) -> T:
        """The structure that `build` makes of a column, or of its structure of an older version."""
        ...


class Sources:
    """Finds or builds what a search needs. Thread-safe."""

    def __init__(self) -> None:
        """Starts empty."""
        self._lock = threading.Lock()
        self._made: weakref.WeakKeyDictionary[Any, dict[tuple[EntityRef, str], Any]] = (
            weakref.WeakKeyDictionary()
        )

    def text(self, view: Columns, entity: EntityRef, column: str) -> TextIndex:
        """The text index of a property of a whole type."""

        def build(previous: PreviousStructure[TextIndex] | None) -> TextIndex:
            if previous is None:
                return TextIndex.build(view.take(entity, column, None))
            delta = previous.delta
            renumbered = delta.forward_map()
            renumbered[delta.old_handles(delta.updated)] = -1

            def texts(handles: Handles) -> pa.Array:
                return view.take(entity, column, handles)

            return previous.value.derive(renumbered, delta.after, texts)

        if isinstance(view, CachingView):
            return view.derived(entity, column, f"text-{rules()}", build, _size, _CODEC)
        return self._remembered(view, entity, column, lambda: build(None))

    def vectors(self, view: Columns, entity: EntityRef, column: str, dim: int) -> Vectors:
        """The vectors of a property of a whole type."""
        if isinstance(view, CachingView):
            caching = view

            def build(_: PreviousStructure[Vectors] | None) -> Vectors:
                return Vectors(*caching.vectors(entity, column))

            return view.derived(entity, column, _VECTORS, build, _size, None)
        return self._remembered(
            view,
            entity,
            column,
            lambda: Vectors(*matrix_of(view.take(entity, column, None), dim)),
        )

    def _remembered(
        self, view: Columns, entity: EntityRef, column: str, build: Callable[[], T]
    ) -> T:
        """One per view object, which lives as long as its snapshot is in use."""
        with self._lock:
            known = self._made.setdefault(view, {})
            found = known.get((entity, column))
            if found is None:
                found = known[entity, column] = build()
        return found


def matrix_of(column: pa.Array, dim: int) -> tuple[Matrix, Mask]:
    """A column of vectors as a matrix, and which rows have one."""
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = column.values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return values.reshape(-1, dim)[column.offset : column.offset + len(column)], valid


def _size(kept: TextIndex | Vectors) -> int:
    return kept.nbytes


def _save(index: TextIndex) -> Mapping[str, pa.Array]:
    return {name: pa.array(array) for name, array in index.arrays().items()}


def _load(arrays: Mapping[str, pa.Array]) -> TextIndex | None:
    try:
        return TextIndex.of_arrays(
            {name: array.to_numpy(zero_copy_only=True) for name, array in arrays.items()}
        )
    except (KeyError, ValueError, IndexError, pa.ArrowException):
        return None  # whatever it is, it is built anew


_CODEC: Final = Codec(_save, _load)
