"""Binding a variable to the entities of a type: all of them, those that pass, or those named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.exec.compare import exactly
from omnigraph.exec.evaluate import constant
from omnigraph.exec.large_text import concatenated
from omnigraph.exec.read.conditions import EntityCondition
from omnigraph.exec.read.fold import Multiplicity, StepOutput
from omnigraph.exec.read.frame import Frame, multiplied
from omnigraph.exec.read.run import Run
from omnigraph.exec.view import Handles
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.ir.expr import (
    Compare,
    CompareOp,
    Const,
    ConstValue,
    Contains,
    EntityRef,
    Expr,
    Now,
    OneOf,
    Param,
    Predicate,
    Prop,
)
from omnigraph.lang.values import Base
from omnigraph.rules.identity import entity_id


class Lookup:
    """Entities named by their ids, or by the values of their whole key."""

    __slots__ = ("entity", "ids", "kinds", "only", "parts", "ref")

    def __init__(
        self,
        ref: EntityRef,
        entity: EntityType,
        ids: tuple[Expr, ...] | None,
        parts: tuple[tuple[str, Expr], ...],
    ) -> None:
        """Find what has one of these ids, or one key with these parts."""
        self.ref = ref
        self.entity = entity
        self.ids = ids
        self.only = ids[0] if ids is not None and len(ids) == 1 else None
        self.parts = parts
        self.kinds = {name: arrow_type(entity.property_by_name[name].type) for name, _ in parts}

    def handles(self, run: Run) -> Handles:
        """Those that exist, each once."""
        if self.only is not None:
            given = constant(self.only, run.context)
            if isinstance(given, str):
                found = run.view.find(self.ref, (given,))
                return found if found[0] >= 0 else found[:0]
        ids = self._ids(run)
        if not ids:
            return np.empty(0, np.int32)
        found = run.view.find(self.ref, ids)
        if len(ids) == 1:
            return found if found[0] >= 0 else found[:0]
        found = np.unique(found)
        return found[1:] if found[0] < 0 else found

    def _ids(self, run: Run) -> Sequence[str]:
        if self.ids is not None:
            return [item for expr in self.ids for item in _texts(constant(expr, run.context))]
        values: dict[str, ConstValue] = {}
        for name, expr in self.parts:
            given = constant(expr, run.context)
            fitted = None if given is None else exactly(given, self.kinds[name])
            if fitted is None:
                return ()
            values[name] = fitted
        return (entity_id(self.entity, values),)


def lookup(
    var: str, ref: EntityRef, entity: EntityType, filters: tuple[Predicate, ...]
) -> tuple[Lookup | None, tuple[Predicate, ...]]:
    """The lookup of entities that the filters of a scan name, and the filters left to check."""
    fixed: dict[str, tuple[Expr, Predicate]] = {}
    for item in filters:
        ids = _named_ids(var, entity, item)
        if ids is not None:
            return Lookup(ref, entity, ids, ()), tuple(each for each in filters if each is not item)
        pair = _fixed(var, item)
        if pair is not None:
            fixed.setdefault(pair[0], (pair[1], item))
    if not entity.key or not all(name in fixed for name in entity.key):
        return None, filters
    used = [fixed[name][1] for name in entity.key]
    rest = tuple(item for item in filters if not any(item is each for each in used))
    parts = tuple((name, fixed[name][0]) for name in entity.key)
    return Lookup(ref, entity, None, parts), rest


def _named_ids(var: str, entity: EntityType, item: Predicate) -> tuple[Expr, ...] | None:
    """The expressions that give the ids, where a condition ties the entity to some."""
    names = {"id"}
    if len(entity.key) == 1:
        only = entity.property_by_name.get(entity.key[0])
        if only is not None and only.type.base is Base.STRING:
            # The id of such an entity is its key.
            names.add(only.name)
    pair = _fixed(var, item)
    if pair is not None:
        return (pair[1],) if pair[0] in names else None
    match item:
        case OneOf(Prop(name, column), items) if name == var and column in names:
            return items if all(isinstance(each, Const | Param | Now) for each in items) else None
        case Contains(Param() | Const() as given, Prop(name, column)) if name == var:
            return (given,) if column in names else None
        case _:
            return None


def _fixed(var: str, item: Predicate) -> tuple[str, Expr] | None:
    match item:
        case Compare(CompareOp.EQ, Prop(name, column), Const() | Param() | Now() as given):
            return (column, given) if name == var else None
        case Compare(CompareOp.EQ, Const() | Param() | Now() as given, Prop(name, column)):
            return (column, given) if name == var else None
        case _:
            return None


def _texts(given: ConstValue) -> list[str]:
    if isinstance(given, tuple):
        return [item for item in given if isinstance(item, str)]
    return [given] if isinstance(given, str) else []


class ScanStep:
    """The entities of a type beside each row."""

    __slots__ = ("condition", "entity", "label", "lookup", "output", "var")

    def __init__(
        self,
        var: str,
        entity: EntityRef,
        found: Lookup | None,
        condition: EntityCondition | None,
        output: StepOutput,
        *,
        label: str,
    ) -> None:
        """Bind `var` to what is named, or to everything, if it passes the condition."""
        self.var = var
        self.entity = entity
        self.lookup = found
        self.condition = condition
        self.output = output
        self.label = label

    def candidates(self, run: Run) -> Handles | None:
        """The entities, each once; None for the whole type."""
        if self.lookup is not None:
            handles = self.lookup.handles(run)
            if self.condition is not None and len(handles):
                handles = handles[self.condition.mask(run, handles)]
            return handles
        if self.condition is not None:
            return np.flatnonzero(self.condition.whole(run)).astype(np.int32)
        return None

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """Every row with every entity."""
        handles = self.candidates(run)
        count = run.view.size(self.entity) if handles is None else len(handles)
        if self.var not in self.output.live and self.output.mode is not Multiplicity.ROWS:
            return self._counted(frame, count)
        run.limits.check(frame.rows * count, len(self.output.live))
        whole = self.var if handles is None else None
        if handles is None:
            handles = np.arange(count, dtype=np.int32)
        if frame.rows == 1 and not frame.vars and frame.weights is None:
            order: tuple[str, ...] | None = ()
            if count > 1:
                order = (self.var,) if run.view.rank(self.entity, handles) is handles else None
            return Frame(count, {self.var: handles}, None, order, whole)
        counts = np.full(frame.rows, count)
        return self.output.expanded(frame, counts, {self.var: np.tile(handles, frame.rows)}, None)

    def _counted(self, frame: Frame, count: int) -> Frame:
        if not count:
            return self.output.kept(frame.pick(np.empty(0, np.int64)))
        if self.output.mode is Multiplicity.SET:
            return self.output.kept(frame)
        weights = multiplied(frame.weights, np.full(frame.rows, count))
        return self.output.kept(Frame(frame.rows, frame.vars, weights, frame.order, frame.whole))


class JoinStep:
    """The entities of a type whose column equals a column of the row."""

    __slots__ = ("column", "label", "other", "output", "scan")

    def __init__(
        self, scan: ScanStep, column: str, other: Prop, output: StepOutput, *, label: str
    ) -> None:
        """Bind what `scan` finds where its `column` equals `other`."""
        self.scan = scan
        self.column = column
        self.other = other
        self.output = output
        self.label = label

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """Every row with the entities that match it."""
        handles = self.scan.candidates(run)
        view = run.view
        right = view.take(self.scan.entity, self.column, handles)
        left = view.take(
            run.entities[self.other.var], self.other.column, frame.vars[self.other.var]
        )
        left_codes, right_codes = common_codes(left, right)
        order = np.argsort(right_codes, kind="stable")
        ordered = right_codes[order]
        begins = np.searchsorted(ordered, left_codes, "left")
        counts = np.searchsorted(ordered, left_codes, "right") - begins
        counts[left_codes < 0] = 0
        run.limits.check(int(counts.sum()), len(self.output.live))
        shifts = begins - (np.cumsum(counts) - counts)
        places = order[np.repeat(shifts, counts) + np.arange(int(counts.sum()))]
        found = places.astype(np.int32) if handles is None else handles[places]
        return self.output.expanded(frame, counts, {self.scan.var: found}, None)


def joinable(left: pa.DataType, right: pa.DataType) -> bool:
    """True if equal values of two types have one form in which they can be hashed."""
    return left == right or _wide(left, right) is not None


def _wide(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return pa.float64()
    whole = pa.types.is_integer(left) and pa.types.is_integer(right)
    return pa.int64() if whole and pa.uint64() not in (left, right) else None


def common_codes(left: pa.Array, right: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that are equal where values are, below 0 for nulls."""
    if left.type != right.type:
        wide = _wide(left.type, right.type) or pa.large_string()
        left, right = left.cast(wide), right.cast(wide)
    both = concatenated([left, right])
    if pa.types.is_floating(both.type):
        both = pa.compute.add(both, pa.scalar(0.0, both.type))  # zero loses its sign
    codes = both.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes[: len(left)], codes[len(left) :]
