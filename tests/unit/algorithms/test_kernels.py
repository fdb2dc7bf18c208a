"""Kernels on small graphs whose answers are known, and on random ones as networkx has them."""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.algorithms.components import components, forest
from omnigraph.algorithms.csr import CsrGraph, blocks, csr_graph, simple_csr_graph
from omnigraph.algorithms.label_propagation import label_propagation
from omnigraph.algorithms.pagerank import PageRankTerms, pagerank
from omnigraph.algorithms.shortest_paths import hops, weighted
from omnigraph.algorithms.triangles import corners_by_rank, ranked_edges, triangle_counts
from omnigraph.errors import Cancelled
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.runtime.clock import ManualClock

Pairs = Sequence[tuple[int, int]]
# Many of its members are alone; loops and parallel edges are likely.
GRAPHS: st.SearchStrategy[tuple[int, list[tuple[int, int]]]] = st.integers(1, 14).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=40),
    )
) | st.just((0, []))
PATH = (100, [(place, place + 1) for place in range(99)])
GRID = (400, [(p, p + 1) for p in range(399) if p % 20 < 19] + [(p, p + 20) for p in range(380)])


def ends(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, np.int32).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def out_rows(size: int, pairs: Pairs) -> CsrGraph:
    return csr_graph(*ends(pairs), size)


def in_rows(size: int, pairs: Pairs) -> CsrGraph:
    return csr_graph(*ends(pairs)[::-1], size)


def both_rows(size: int, pairs: Pairs) -> CsrGraph:
    return out_rows(size, [*pairs, *((b, a) for a, b in pairs if a != b)])


def multi(size: int, pairs: Pairs) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(pairs)
    return graph


# -- rows ------------------------------------------------------------------------------------------


@given(GRAPHS)
def test_rows_have_an_entry_per_edge(graph: tuple[int, Pairs]) -> None:
    size, pairs = graph
    rows = out_rows(size, pairs)
    found = [
        (v, int(t)) for v in range(size) for t in rows.targets[slice(*rows.offsets[v : v + 2])]
    ]
    assert found == sorted(pairs)


@given(st.lists(st.integers(0, 9), max_size=50), st.integers(1, 12))
def test_blocks_cover_every_row_once(degrees: list[int], entries: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    ranges = list(blocks(offsets, entries))
    assert [row for low, high in ranges for row in range(low, high)] == list(range(len(degrees)))
    assert all(offsets[h] - offsets[low] <= entries or h == low + 1 for low, h in ranges)


# -- PageRank --------------------------------------------------------------------------------------


def ranks(size: int, pairs: Pairs, terms: PageRankTerms | None = None) -> np.ndarray:
    degrees = out_rows(size, pairs).degrees()
    return pagerank(in_rows(size, pairs), degrees, terms or PageRankTerms(tolerance=1e-13)).values


def test_ranks_of_a_circle_are_equal() -> None:
    assert ranks(3, [(0, 1), (1, 2), (2, 0)]) == pytest.approx([1 / 3] * 3)


def test_the_rank_of_a_dead_end_goes_to_all() -> None:
    # a = .15/2 + .85 b / 2;  b = a + .85 a
    a = 1 / (2 + 0.85)
    assert ranks(2, [(0, 1)]) == pytest.approx([a, 1 - a])


@given(GRAPHS, st.sampled_from([0.0, 0.5, 0.85, 0.99]))
@example((0, []), 0.85)
@example((3, []), 0.85)
def test_ranks_are_those_of_networkx(graph: tuple[int, Pairs], damping: float) -> None:
    size, pairs = graph
    terms = PageRankTerms(damping=damping, tolerance=1e-12, iterations=5000)
    found = ranks(size, pairs, terms)
    expected = _nx_pagerank(multi(size, pairs), damping) if size else {}
    assert found == pytest.approx([expected[v] for v in range(size)], rel=1e-9)


def _nx_pagerank(graph: nx.MultiDiGraph, damping: float) -> dict[int, float]:
    # The implementation of networkx that does without scipy.
    from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python  # noqa: PLC0415

    found: dict[int, float] = _pagerank_python(graph, alpha=damping, tol=1e-14, max_iter=20_000)
    return found


def test_it_says_when_it_did_not_converge() -> None:
    rows, degrees = in_rows(2, [(0, 1)]), np.array([1, 0])
    once = pagerank(rows, degrees, PageRankTerms(iterations=1, tolerance=1e-12))
    assert (once.iterations, once.converged) == (1, False)
    enough = pagerank(rows, degrees, PageRankTerms(iterations=1000, tolerance=1e-12))
    assert enough.converged
    assert enough.iterations < 1000


# -- components ------------------------------------------------------------------------------------


@given(GRAPHS, st.integers(1, 5))
@example(PATH, 1)
@example(GRID, 3)
def test_components_are_those_of_networkx(graph: tuple[int, Pairs], pieces: int) -> None:
    size, pairs = graph
    parts = [ends(pairs[start::pieces]) for start in range(pieces)]
    found = components(size, parts)
    expected = [0] * size
    for members in nx.weakly_connected_components(multi(size, pairs)):
        for member in members:
            expected[member] = min(members)
    assert found.tolist() == expected
    assert components(size, [forest(found)]).tolist() == expected


def test_a_long_path_is_one_component() -> None:
    size = 50_000
    order = np.random.default_rng(1).permutation(size).astype(np.int32)
    assert not components(size, [(order[:-1], order[1:])]).any()


# -- label propagation -----------------------------------------------------------------------------


def slow_labels(size: int, pairs: Pairs, iterations: int) -> tuple[list[int], int]:
    """As the definition says it."""
    labels = list(range(size))
    for iteration in range(1, iterations + 1):
        fresh = []
        for vertex in range(size):
            votes = [labels[b] for a, b in pairs if a == vertex]
            votes += [labels[a] for a, b in pairs if b == vertex and a != b]
            most = max((votes.count(label) for label in votes), default=0)
            best = {label for label in votes if votes.count(label) == most}
            stays = labels[vertex] in best or not best
            fresh.append(labels[vertex] if stays else min(best))
        if fresh == labels:
            return labels, iteration
        labels = fresh
    return labels, iterations


@given(GRAPHS, st.integers(1, 6))
def test_labels_are_as_defined(graph: tuple[int, Pairs], iterations: int) -> None:
    size, pairs = graph
    rows = both_rows(size, pairs)
    found = label_propagation(rows, iterations)
    active = label_propagation(rows, iterations, rows)
    assert active.values.tolist() == found.values.tolist()
    assert (active.iterations, active.converged) == (found.iterations, found.converged)
    assert (found.values.tolist(), found.iterations) == slow_labels(size, pairs, iterations)


def test_two_cliques_are_two_communities() -> None:
    cliques = [(a, b) for a in range(8) for b in range(a) if (a < 4) == (b < 4)]
    found = label_propagation(both_rows(8, [*cliques, (3, 4)]), 20)
    assert found.converged
    assert len(set(found.values[:4])) == len(set(found.values[4:])) == 1
    assert found.values[0] != found.values[7]


# -- shortest paths --------------------------------------------------------------------------------


@given(GRAPHS, st.integers(0, 3), st.none() | st.integers(0, 5))
@example(PATH, 1, None)
@example(GRID, 2, None)
def test_hops_are_those_of_networkx(graph: tuple[int, Pairs], count: int, most: int | None) -> None:
    size, pairs = graph
    sources = list(range(size))[:count]
    found = hops(out_rows(size, pairs), np.array(sources, np.int32), most)
    known = (
        nx.multi_source_dijkstra_path_length(multi(size, pairs), set(sources), cutoff=most)
        if sources
        else {}
    )
    assert found.tolist() == [known.get(v, -1) for v in range(size)]


@given(GRAPHS, st.data(), st.integers(1, 3), st.none() | st.floats(0, 8))
@example(PATH, None, 1, None)
@example(GRID, None, 3, None)
def test_weighted_distances_are_those_of_networkx(
    graph: tuple[int, Pairs], data: st.DataObject | None, count: int, most: float | None
) -> None:
    size, pairs = graph
    if data is None:
        weights = [(7 * place) % 5 / 3 for place in range(len(pairs))]
    else:
        weights = [data.draw(st.floats(0, 4, width=32)) for _ in pairs]
    sources = list(range(size))[:count]
    rows = csr_graph(*ends(pairs), size, np.array(weights, np.float64))
    found = weighted(rows, np.array(sources, np.int32), most)
    graph_of_nx = nx.MultiDiGraph()
    graph_of_nx.add_nodes_from(range(size))
    graph_of_nx.add_weighted_edges_from((a, b, w) for (a, b), w in zip(pairs, weights, strict=True))
    known = (
        nx.multi_source_dijkstra_path_length(graph_of_nx, set(sources), cutoff=most)
        if sources
        else {}
    )
    assert found.tolist() == [known.get(v, np.inf) for v in range(size)]


def test_a_large_random_graph_is_searched_in_stretches() -> None:
    """More than a heap takes one by one."""
    random = np.random.default_rng(7)
    pairs = random.integers(0, 3000, (20_000, 2)).tolist()
    weights = random.random(len(pairs)).round(2)
    rows = csr_graph(*ends(pairs), 3000, weights)
    found = weighted(rows, np.array([5, 9], np.int32))
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(3000))
    graph.add_weighted_edges_from((a, b, w) for (a, b), w in zip(pairs, weights, strict=True))
    known = nx.multi_source_dijkstra_path_length(graph, {5, 9})
    assert found.tolist() == [known.get(v, np.inf) for v in range(3000)]


# -- triangles -------------------------------------------------------------------------------------


@given(GRAPHS)
@example((6, [(a, b) for a in range(6) for b in range(6)]))
def test_triangles_are_those_of_networkx(graph: tuple[int, Pairs]) -> None:
    size, pairs = graph
    found = triangle_counts(simple_csr_graph(*ends(pairs), size))
    simple = nx.Graph(multi(size, pairs))
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    known = nx.triangles(simple)
    assert found.tolist() == [known[v] for v in range(size)]


@given(GRAPHS, st.integers(1, 5))
def test_shares_of_triangles_make_up_the_whole(graph: tuple[int, Pairs], shares: int) -> None:
    size, pairs = graph
    neighbours = simple_csr_graph(*ends(pairs), size)
    edges = ranked_edges(neighbours)
    parts = [corners_by_rank(edges.keys, size, share=(each, shares)) for each in range(shares)]
    whole = triangle_counts(neighbours)
    assert edges.by_vertex(np.sum(parts, axis=0)).tolist() == whole.tolist()


def test_triangles_of_a_larger_graph() -> None:
    random = np.random.default_rng(3)
    pairs = (random.random((30_000, 2)) ** 2 * 900).astype(np.int32).tolist()
    found = triangle_counts(simple_csr_graph(*ends(pairs), 900))
    simple = nx.Graph([pair for pair in pairs if pair[0] != pair[1]])
    known = nx.triangles(simple)
    assert found.tolist() == [known.get(v, 0) for v in range(900)]


# -- ending early ----------------------------------------------------------------------------------


def test_every_kernel_can_be_cancelled() -> None:
    size, pairs = GRID
    rows, sources = both_rows(size, pairs), np.array([0], np.int32)
    heavy = CsrGraph(rows.offsets, rows.targets, np.ones(len(rows.targets)))
    calls: list[Callable[[], object]] = [
        lambda: pagerank(rows, rows.degrees(), PageRankTerms()),
        lambda: components(size, [ends(pairs)]),
        lambda: label_propagation(rows, 5),
        lambda: hops(rows, sources),
        lambda: weighted(heavy, sources),
        lambda: triangle_counts(rows),
    ]
    for call in calls:
        call()
        with pytest.raises(Cancelled):
            _cancelled(call)


def _cancelled(call: Callable[[], object]) -> None:
    token = CancelToken()
    with limited(ManualClock(now_us=0), None, token):
        token.cancel()
        call()
