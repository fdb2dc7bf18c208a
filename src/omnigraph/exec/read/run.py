"""The state that the operators of one running query share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import Code, Internal
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.read.frame import Frame
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.view import GraphView, Handles, Mask
from omnigraph.lang.ir.expr import ConstValue, EntityRef, Ranking, TextMatch

Scores = npt.NDArray[np.float64]


class Best(Protocol):
    """The best entities of a ranking, best first and equals by id, with their values."""

    @property
    def handles(self) -> Handles:
        """The handles of the matching entities, ascending."""
        ...

    @property
    def numbers(self) -> Scores:
        """Their values."""
        ...


class SearchBackend(Protocol):
    """The search of text and vectors."""

    def matches(
        self, match: TextMatch, entity: EntityRef, view: GraphView, context: EvalContext
    ) -> Mask:
        """For every entity of the type whether its text matches."""
        ...

    def values(
        self,
        ranking: Ranking,
        entity: EntityRef,
        view: GraphView,
        handles: Handles,
        context: EvalContext,
    ) -> tuple[Scores, Mask]:
        """The value of a ranking for distinct entities, and which of them have one.

        For a fusion they are all the candidates.
        """
        ...

    def best(
        self,
        ranking: Ranking,
        entity: EntityRef,
        view: GraphView,
        handles: Handles | None,
        count: int,
        context: EvalContext,
    ) -> Best:
        """The best `count` of distinct candidates (None for the whole type), ascending handles.

        Those that equal the last of them are among them, too; those without a value never.
        """
        ...


class Run:
    """One execution: the view, what the caller gave, and what was computed on the way."""

    __slots__ = ("context", "entities", "limits", "memo", "scores", "search", "view")

    def __init__(
        self,
        view: GraphView,
        params: Mapping[str, ConstValue],
        now_ms: int,
        entities: Mapping[str, EntityRef],
        search: SearchBackend | None,
        limits: Limits,
    ) -> None:
        """Begin; `entities` says what each variable stands for."""
        self.view = view
        self.context = EvalContext(params, now_ms)
        self.entities = entities
        self.search = search
        self.limits = limits
        self.memo: dict[object, Mask] = {}
        # Values of rankings that depend on more than the rows that are left, by handle.
        self.scores: dict[Ranking, tuple[Handles, Scores]] = {}

    def columns(self, frame: Frame) -> Callable[[str, str], pa.Array]:
        """The columns of a frame, in the form that evaluating predicates takes."""
        view, entities = self.view, self.entities

        def column(var: str, name: str) -> pa.Array:
            return view.take(entities[var], name, frame.vars[var])

        return column

    def searching(self) -> SearchBackend:
        """The search of text and vectors."""
        if self.search is None:
            raise Internal(Code.INTERNAL, "this query cannot be run without search")
        return self.search

    def matches(self, match: TextMatch) -> Mask:
        """For every entity of the type of the variable whether its text matches."""
        found = self.memo.get(match)
        if found is None:
            entity = self.entities[match.var]
            found = self.searching().matches(match, entity, self.view, self.context)
            self.memo[match] = found
        return found
