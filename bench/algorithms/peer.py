"""Runs algorithms of networkx or igraph on a file of edges; a script for the peers' environment.

    python peer.py networkx|igraph EDGES.npy VERTICES ROUNDS

Prints one JSON object: processor seconds of each algorithm, the best of the rounds, and a figure to
compare answers by.
"""

import importlib
import json
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

Calls = dict[str, Callable[[], float]]


def networkx_calls(ends: Any, size: int) -> tuple[str, Calls]:
    nx = importlib.import_module("networkx")
    directed = nx.MultiDiGraph()
    directed.add_nodes_from(range(size))
    directed.add_edges_from(ends.T.tolist())
    simple = nx.Graph(directed)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    communities = nx.community.label_propagation_communities
    calls = {
        "pagerank": lambda: max(nx.pagerank(directed, tol=1e-8 / size).values()),
        "connected_components": lambda: sum(1 for _ in nx.weakly_connected_components(directed)),
        "label_propagation": lambda: len(list(communities(simple))) * 0,
        "shortest_paths": lambda: sum(nx.single_source_shortest_path_length(directed, 0).values()),
        "triangle_counts": lambda: sum(nx.triangles(simple).values()) // 3,
    }
    return nx.__version__, calls


def igraph_calls(ends: Any, size: int) -> tuple[str, Calls]:
    igraph = importlib.import_module("igraph")
    directed = igraph.Graph(n=size, edges=ends.T.tolist(), directed=True)
    simple = directed.as_undirected(mode="collapse").simplify()

    def distances() -> int:
        found = np.array(directed.distances(source=0)[0])
        return int(found[np.isfinite(found)].sum())

    def triangles() -> int:
        # It has no call that counts them per vertex; listing is what it offers.
        return len(simple.list_triangles())

    calls = {
        "pagerank": lambda: max(directed.pagerank()),
        "connected_components": lambda: len(directed.connected_components(mode="weak")),
        "label_propagation": lambda: len(simple.community_label_propagation()) * 0,
        "shortest_paths": distances,
        "triangle_counts": triangles,
    }
    return igraph.__version__, calls


def main() -> None:
    peer, file, vertices, rounds = sys.argv[1:]
    ends = np.load(file)
    begin = process_time()
    version, calls = {"networkx": networkx_calls, "igraph": igraph_calls}[peer](ends, int(vertices))
    figures: dict[str, Any] = {"version": version, "build": process_time() - begin}
    figures["algorithms"] = {}
    for name, call in calls.items():
        taken, answer = [], 0.0
        for _ in range(int(rounds)):
            begin = process_time()
            answer = call()
            taken.append(process_time() - begin)
        figures["algorithms"][name] = {"seconds": min(taken), "answer": float(answer)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
