"""What the tasks of algorithms on Spark do with their rows, without Spark."""

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.algorithms.components import components
from omnigraph.algorithms.csr import simple_csr_graph
from omnigraph.algorithms.triangles import triangle_counts
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms import components as spark_components
from omnigraph.dataplane.spark.algorithms import triangles as spark_triangles
from omnigraph.dataplane.spark.algorithms.blocks import (
    Merge,
    Pack,
    each_row,
    layout,
)
from omnigraph.errors import LimitExceeded
from omnigraph.lang.ir.ops import Towards

Pairs = list[tuple[int, int]]
GRAPHS: st.SearchStrategy[tuple[int, Pairs]] = st.integers(1, 20).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=60),
    )
)


def edge_rows(pairs: Pairs, weights: list[float] | None = None) -> pa.RecordBatch:
    values = [None] * len(pairs) if weights is None else weights
    cells = [
        pa.array([a for a, _ in pairs], pa.int64()),
        pa.array([b for _, b in pairs], pa.int64()),
        pa.array(values, pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(cells, ["s", "t", "w"])


def merged(pack: Pack, merge: Merge, rows: pa.RecordBatch) -> list[pa.Table]:
    groups: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
    halves = [rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)]
    for batch in pack(iter(halves)):
        key = (batch.column("source")[0].as_py(), batch.column("target")[0].as_py())
        groups[key].append(batch)
    return [merge(pa.Table.from_batches(group)) for group in groups.values()]


def pairs_in(tables: list[pa.Table], width: int) -> Counter[tuple[int, int, float | None]]:
    found: Counter[tuple[int, int, float | None]] = Counter()
    for table in tables:
        for row in each_row(iter(table.to_batches())):
            sources = np.frombuffer(row["sources"].as_py(), np.int32)
            targets = np.frombuffer(row["targets"].as_py(), np.int32)
            assert (np.diff(targets) >= 0).all()
            weighed = row["weights"].as_py()
            weights = (
                [None] * len(sources)
                if weighed is None
                else np.frombuffer(weighed, np.float64).tolist()
            )
            first, second = row["source"].as_py() * width, row["target"].as_py() * width
            ends = zip(sources + first, targets + second, weights, strict=True)
            found.update((int(a), int(b), weight) for a, b, weight in ends)
    return found


@given(GRAPHS, st.integers(1, 8), st.integers(1, 7), st.sampled_from(Towards), st.booleans())
def test_every_edge_is_in_one_piece(
    graph: tuple[int, Pairs], width: int, most: int, towards: Towards, weighed: bool
) -> None:
    _, pairs = graph
    weights = [float(place) for place in range(len(pairs))] if weighed else None
    pack = Pack(width, towards, 3, simple=False)
    tables = merged(pack, Merge(most, simple=False), edge_rows(pairs, weights))
    expected: Counter[tuple[int, int, float | None]] = Counter()
    for place, (a, b) in enumerate(pairs):
        weight = float(place) if weighed else None
        if towards is not Towards.IN:
            expected[a, b, weight] += 1
        if towards is Towards.IN or (towards is Towards.BOTH and a != b):
            expected[b, a, weight] += 1
    assert pairs_in(tables, width) == expected
    sizes = [
        len(row["sources"].as_py()) // 4 for t in tables for row in each_row(iter(t.to_batches()))
    ]
    assert all(size <= most for size in sizes)


@given(GRAPHS, st.integers(1, 8))
def test_simple_pieces_have_each_pair_once(graph: tuple[int, Pairs], width: int) -> None:
    _, pairs = graph
    pack = Pack(width, Towards.OUT, 100, simple=True)
    tables = merged(pack, Merge(100, simple=True), edge_rows(pairs))
    assert pairs_in(tables, width) == Counter(
        {(min(pair), max(pair), None) for pair in pairs if pair[0] != pair[1]}
    )


@given(GRAPHS, st.integers(1, 8))
def test_triangles_are_counted_by_one_task_each(graph: tuple[int, Pairs], width: int) -> None:
    size, pairs = graph
    pack = Pack(width, Towards.OUT, 100, simple=True)
    tables = merged(pack, Merge(100, simple=True), edge_rows(pairs))
    copies = spark_triangles._Copies(-(-size // width))
    tasks: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for table in tables:
        for batch in copies(iter(table.to_batches())):
            tasks[batch.column("corners")[0].as_py()].append(batch)
    counts = np.zeros((-(-size // width)) * width, np.int64)
    for batches in tasks.values():
        found = spark_triangles._Count(width)(pa.Table.from_batches(batches))
        for row in each_row(iter(found.to_batches())):
            places = np.frombuffer(row["places"].as_py(), np.int32) + row["block"].as_py() * width
            counts[places] += np.frombuffer(row["value"].as_py(), np.int64)
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    expected = triangle_counts(simple_csr_graph(ends[:, 0], ends[:, 1], size))
    assert counts[:size].tolist() == expected.tolist()


@given(GRAPHS, st.integers(1, 8), st.integers(1, 3))
def test_forests_of_parts_connect_what_the_edges_connect(
    graph: tuple[int, Pairs], width: int, parts: int
) -> None:
    size, pairs = graph
    rows = [edge_rows(pairs[start::parts]).drop_columns(["w"]) for start in range(parts)]
    forests = [batch for part in rows for batch in spark_components._Forest(size)(iter([part]))]
    states = list(spark_components._Whole(size, width)(iter(forests)))
    found = np.concatenate([np.frombuffer(s.column("value")[0].as_py(), np.int32) for s in states])
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    assert found.tolist() == components(size, [(ends[:, 0], ends[:, 1])]).tolist()


@pytest.mark.parametrize(
    ("vertices", "edges", "parallelism"),
    [(0, 0, 2), (1, 5, 2), (10_000, 50_000, 2), (10**8, 10**9, 64), (10**6, 10**9, 8)],
)
def test_blocks_are_bounded(vertices: int, edges: int, parallelism: int) -> None:
    found = layout(vertices, edges, parallelism)
    assert found.width <= tuning.active.block_vertices
    assert (found.blocks - 1) * found.width < vertices <= found.blocks * found.width
    if vertices > 4 * parallelism:
        assert found.blocks >= parallelism
        assert edges / found.blocks**2 <= 2 * tuning.active.piece_edges


def test_more_vertices_than_numbers_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="vertices"):
        layout(2**31, 0, 2)
