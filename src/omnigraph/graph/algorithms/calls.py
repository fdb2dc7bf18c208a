"""`graph.algorithms`: PageRank and its like, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypedDict, Unpack

from omnigraph.algorithms.model import (
    ComponentsTask,
    LabelPropagationTask,
    PageRankTask,
    Selection,
    ShortestPathsTask,
    Task,
    TrianglesTask,
    select,
    weight_property,
)
from omnigraph.algorithms.pagerank import PageRankTerms
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.revisions import Revision
from omnigraph.dataplane.run.choose import shown
from omnigraph.dataplane.spark.config import configured, unavailable
from omnigraph.errors import Code, InvalidInput, LimitExceeded
from omnigraph.exec.algorithms.arrays import Arrays
from omnigraph.exec.algorithms.run import compute
from omnigraph.graph.algorithms.results import (
    AlgorithmResult,
    Answer,
    TableAnswer,
    check_writable,
)
from omnigraph.graph.arguments import one_of, seconds, token, whole_number
from omnigraph.graph.context import GraphContext
from omnigraph.graph.pins import Pins
from omnigraph.lang.ir.ops import Towards
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.writes import LoadResult
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import Actor, Engine, EngineChoice

Types = str | Sequence[str] | None


class RunOptions(TypedDict, total=False):
    """Options that every algorithm takes; see `Algorithms`."""

    branch: str | None
    at: Revision | None
    write_to: str | None
    actor: str | None
    engine: EngineChoice
    spark: object
    timeout: float | None
    cancel: CancelToken | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """On which state an algorithm runs, where, and what becomes of its result."""

    branch: str | None = None
    at: Revision | None = None
    write_to: str | None = None
    actor: str | None = None
    engine: EngineChoice = "auto"
    spark: object = None
    timeout: float | None = None
    cancel: CancelToken | None = None


@dataclass(frozen=True, slots=True)
class _EngineResult:
    """The values that an engine computed, and how."""

    answer: Answer
    iterations: int | None
    converged: bool


class Algorithms:
    """Graph algorithms on all nodes and edges of some types.

    `nodes` and `edges` name types. Without node types, all those count that the edge types
    connect; without edge types, all that connect these node types; without either, the whole graph.

    All take these options, too:

    - `branch`, `at`: which state to read, as in `graph.query`;
    - `write_to`: a property of the nodes that takes the values, by one merge load; it is checked
      before the work begins. `result.write` does the same later. `actor` is who does it;
    - `engine`: `inprocess`, `spark`, or `auto`, which takes Spark when the setting
      `query_bytes_max` would not allow it in this process; the answer is the same;
    - `spark`: a Spark master or session;
    - `timeout`, `cancel`: end the call early, as in `graph.query`.

    Example:
        ```python
        result = graph.algorithms.pagerank("Person", "Knows", damping=0.9)
        best = max(result, key=lambda row: row["rank"])
        assert best["id"] == "Bo"
        ```
    """

    def __init__(
        self,
        parts: GraphContext,
        pins: Pins,
        authorizer: Authorizer,
        actor: str | None,
    ) -> None:
        """Work on an open graph."""
        self._parts = parts
        self._pinned = pins.pinned
        self._plans = pins.plans
        self._authorizer = authorizer
        self._actor = actor

    def pagerank(
        self,
        nodes: Types = None,
        edges: Types = None,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-8,
        iterations: int = 100,
        direction: str = "out",
        **options: Unpack[RunOptions],
    ) -> AlgorithmResult:
        """PageRank: how often a random walker comes by. Ranks sum up to 1.

        Nodes that no edge leaves pass their rank on to all nodes. Parallel edges count each.

        Example:
            ```python
            ranks = graph.algorithms.pagerank("Person", "Knows")
            assert abs(sum(row["rank"] for row in ranks) - 1) < 1e-9
            ```

        Args:
            nodes: Node types.
            edges: Edge types.
            damping: The probability to follow an edge, from 0 to below 1.
            tolerance: It ends when all ranks together change by less than this.
            iterations: The most iterations.
            direction: `out` follows edges, `in` goes against them, `both` goes either way.
            options: See `Algorithms`.
        """
        terms = PageRankTerms(
            damping=_number(damping, "damping", 0.0, 1.0),
            tolerance=_number(tolerance, "tolerance", 0.0, 1.0),
            iterations=whole_number(iterations, "iterations", 1),
        )
        task = PageRankTask(direction=_direction(direction), terms=terms)
        return self._run(task, nodes, edges, options)

    def connected_components(
        self, nodes: Types = None, edges: Types = None, **options: Unpack[RunOptions]
    ) -> AlgorithmResult:
        """Weakly connected components: nodes of one component have the same number.

        It is the number of the smallest node of the component, when all nodes are counted from 0
        in the order of their types and ids.

        Example:
            ```python
            found = graph.algorithms.connected_components("Person", "Knows")
            assert {row["component"] for row in found} == {0}
            ```

        Args:
            nodes: Node types.
            edges: Edge types.
            options: See `Algorithms`.
        """
        return self._run(ComponentsTask(), nodes, edges, options)

    def label_propagation(
        self,
        nodes: Types = None,
        edges: Types = None,
        *,
        iterations: int = 20,
        direction: str = "both",
        **options: Unpack[RunOptions],
    ) -> AlgorithmResult:
        """Communities by label propagation. The same graph always gives the same labels.

        Each node starts with its own number as its label. In an iteration all nodes at once take
        the label that most of their neighbours have; of several such labels their own if it is one
        of them, and else the smallest.

        Example:
            ```python
            found = graph.algorithms.label_propagation("Person", "Knows", iterations=5)
            assert found.iterations <= 5
            ```

        Args:
            nodes: Node types.
            edges: Edge types.
            iterations: The most iterations. Some graphs swap labels for ever.
            direction: `both`; or labels move only along edges (`out`) or against them (`in`).
            options: See `Algorithms`.
        """
        most = whole_number(iterations, "iterations", 1)
        task = LabelPropagationTask(direction=_direction(direction), iterations=most)
        return self._run(task, nodes, edges, options)

    def shortest_paths(
        self,
        nodes: Types = None,
        edges: Types = None,
        *,
        sources: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        weight: str | None = None,
        distance_max: float | None = None,
        direction: str = "out",
        **options: Unpack[RunOptions],
    ) -> AlgorithmResult:
        """The distance of each node from the nearest source; null where no path leads.

        Example:
            ```python
            found = graph.algorithms.shortest_paths("Person", "Knows", sources="Ada")
            assert found.to_pylist() == [{"id": "Ada", "distance": 0}, {"id": "Bo", "distance": 1}]
            ```

        Args:
            nodes: Node types.
            edges: Edge types.
            sources: Ids of nodes; by type (`{"Person": ["Ada"]}`) if there are several types.
            weight: A property of the edges whose values are summed up; without it edges count. It
                must have a value in every edge, and none below 0.
            distance_max: Nodes that are farther away have no distance.
            direction: `out` follows edges, `in` goes against them, `both` goes either way.
            options: See `Algorithms`.

        Raises:
            NotFound: There is no such source.
        """
        most = None if distance_max is None else _number(distance_max, "distance_max", 0.0, None)
        task = ShortestPathsTask(
            sources={}, direction=_direction(direction), weight=weight, most=most
        )
        return self._run(task, nodes, edges, options, sources)

    def triangle_counts(
        self, nodes: Types = None, edges: Types = None, **options: Unpack[RunOptions]
    ) -> AlgorithmResult:
        """Counts the triangles that each node is a corner of.

        The direction of edges does not matter; loops and parallel edges count for nothing.

        Example:
            ```python
            found = graph.algorithms.triangle_counts("Person", "Knows")
            assert all(row["triangles"] == 0 for row in found)
            ```

        Args:
            nodes: Node types.
            edges: Edge types.
            options: See `Algorithms`.
        """
        return self._run(TrianglesTask(), nodes, edges, options)

    # -- inside ------------------------------------------------------------------------------------

    def _run(
        self,
        task: Task,
        nodes: Types,
        edges: Types,
        options: RunOptions,
        sources: object = None,
    ) -> AlgorithmResult:
        terms = _Terms(**options)
        clock = self._parts.clock
        begin = clock.ticks_ns()
        with limited(clock, seconds(terms.timeout), token(terms.cancel)):
            self._parts.repo.require_open()
            pinned = self._pinned(terms.branch, terms.at)
            catalog = self._plans(pinned).catalog
            selection = select(catalog, _names(nodes, "nodes"), _names(edges, "edges"))
            self._authorizer.ask(Permission.READ, pinned.branch, types=selection.keys)
            if isinstance(task, ShortestPathsTask):
                task = replace(task, sources=_sources(sources, selection))
                if task.weight is not None:
                    weight_property(selection, task.weight)
            if terms.write_to is not None:
                self._parts.repo.require_writable()
                check_writable(catalog, selection, task, terms.write_to)
            engine, reason = self._chosen(task, selection, pinned, terms)
            found = self._computed(engine, task, selection, pinned, terms)
            result = AlgorithmResult(
                algorithm=task.name,
                column=task.column,
                engine=engine,
                reason=reason,
                iterations=found.iterations,
                converged=found.converged,
                commit=str(pinned.head),
                seconds=(clock.ticks_ns() - begin) / 1e9,
                _answer=found.answer,
                _selection=selection,
                _check=partial(self._writable, task, selection, terms),
                _write=partial(self._write, terms),
            )
            if terms.write_to is None:
                return result
            return replace(result, written=result.write(terms.write_to))

    def _chosen(
        self, task: Task, selection: Selection, pinned: GraphVersion, terms: _Terms
    ) -> tuple[Engine, str]:
        """Returns the engine that it runs on, and the reason."""
        asked: EngineChoice = one_of(EngineChoice, terms.engine, "engine")
        config = configured(terms.spark, variables=self._parts.variables)
        if asked == "spark":
            if (missing := unavailable(config)) is not None:
                raise InvalidInput(Code.ENGINE_UNAVAILABLE, missing)
            return "spark", "asked for"
        rows = {key: pinned.pin(key).row_count for key in selection.keys}
        vertices = sum(count for key, count in rows.items() if key.startswith("node:"))
        edges = sum(rows.values()) - vertices
        size, most = task.bytes_needed(vertices, edges), self._parts.limits.bytes_max
        what = f"{vertices:,} vertices and {edges:,} edges take about {shown(size)}"
        if size <= most:
            reason = "asked for" if asked == "inprocess" else f"{what}, which fits"
            return "inprocess", reason
        if asked == "auto" and (missing := unavailable(config)) is None:
            return "spark", f"{what}; in this process at most {shown(most)} are allowed"
        hint = 'use engine="spark"' if asked == "inprocess" else f"{missing}"
        text = f"{what}, at most {most} bytes are allowed; {hint}, or raise `query_bytes_max`"
        raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="query_bytes_max", most=most)

    def _computed(
        self,
        engine: Engine,
        task: Task,
        selection: Selection,
        pinned: GraphVersion,
        terms: _Terms,
    ) -> _EngineResult:
        if engine == "spark":
            return self._on_spark(task, selection, pinned, terms.spark)
        view = self._parts.views.view(pinned, self._plans(pinned).catalog)
        arrays = Arrays(view, selection)
        done = compute(arrays, task)
        answer = TableAnswer(selection.nodes, arrays.ids(), task.column, done.values, _session_for)
        return _EngineResult(answer, done.iterations, done.converged)

    def _on_spark(
        self, task: Task, selection: Selection, pinned: GraphVersion, spark: object
    ) -> _EngineResult:
        # Spark is imported only by those who use it.
        from omnigraph.dataplane.spark.algorithms import run  # noqa: PLC0415
        from omnigraph.dataplane.spark.algorithms.answer import FrameAnswer  # noqa: PLC0415
        from omnigraph.dataplane.spark.algorithms.blocks import Blocks  # noqa: PLC0415
        from omnigraph.dataplane.spark.dense import DenseFrames  # noqa: PLC0415
        from omnigraph.dataplane.spark.runner import SparkRunner  # noqa: PLC0415
        from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

        catalog, most = self._plans(pinned).catalog, self._parts.limits.bytes_max
        with acquire(configured(spark, variables=self._parts.variables)) as held:
            frames = DenseFrames(held, self._parts.repo, pinned, catalog)
            blocks = Blocks(frames, selection, SparkRunner(held))
            done = run.compute(blocks, task, most)
            answer = FrameAnswer(blocks, task, done, most)
        return _EngineResult(answer, done.iterations, done.converged)

    def _writable(
        self, task: Task, selection: Selection, terms: _Terms, name: str, branch: str | None
    ) -> bool:
        """Judge a property by the schema that the branch has now."""
        self._parts.repo.require_writable()
        pinned = self._pinned(branch or terms.branch, None)
        return check_writable(self._plans(pinned).catalog, selection, task, name)

    def _write(
        self, terms: _Terms, source: Mapping[str, Any], branch: str | None, actor: str | None
    ) -> LoadResult:
        from omnigraph.dataplane.load.request import Fill, LoadRequest  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        named = actor or terms.actor
        who = self._actor if named is None else Actor(named)
        pinned = self._pinned(branch or terms.branch, None)
        self._authorizer.ask(Permission.CHANGE, pinned.branch, types=_node_keys(source), actor=who)
        request = LoadRequest(
            catalog=self._plans(pinned).catalog,
            mode="merge",
            branch=pinned.branch,
            actor=who,
            fill=Fill.KNOWN,
        )
        return Bulk.of(self._parts).load(source, request, Execution())


def _node_keys(source: Mapping[str, Any]) -> list[str]:
    return [f"node:{name}" for name in source]


def _session_for(spark: object) -> Any:
    """A session that the caller named, or the one that is there; it is kept for the next one."""
    from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415

    with acquire(configured(spark)) as held:
        return held.session


def _names(value: object, what: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, Sequence) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    text = f"{what} are the name of a type or several of them, not {value!r:.80}"
    raise InvalidInput(Code.INPUT_INVALID, text)


def _direction(value: object) -> Towards:
    return Towards(one_of(Towards, value, "direction"))


def _number(value: object, what: str, least: float, below: float | None) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value and (below is None or value < below):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    limits = f"from {least:g} on" if below is None else f"from {least:g} to below {below:g}"
    raise InvalidInput(Code.INPUT_INVALID, f"{what} is a number {limits}, not {value!r:.80}")


def _sources(value: object, selection: Selection) -> dict[str, tuple[str, ...]]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in selection.nodes:
                text = f"sources are of {', '.join(selection.nodes)}, not of {name!r:.80}"
                raise InvalidInput(Code.INPUT_INVALID, text)
        return {name: _ids(ids) for name, ids in value.items()}
    if len(selection.nodes) != 1:
        text = f"with several node types say which: sources={{{selection.nodes[0]!r}: [...]}}"
        raise InvalidInput(Code.INPUT_INVALID, text)
    return {selection.nodes[0]: _ids(value)}


def _ids(value: object) -> tuple[str, ...]:
    ids = (value,) if isinstance(value, str) else value
    if isinstance(ids, Sequence) and ids and all(isinstance(each, str) for each in ids):
        return tuple(ids)
    raise InvalidInput(Code.INPUT_INVALID, f"sources are ids of nodes, not {value!r:.80}")
