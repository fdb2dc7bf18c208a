"""Ours and GraphFrames in one session of Spark: `python -m bench.algorithms.on_spark GRAPH JAR`.

Both are given what is best for them: a graph that was read before. GraphFrames has vertices and
edges with numbers for ids, cached; its own fastest settings are left as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from pyspark.sql import SparkSession

import omnigraph as og

ITERATIONS = 5
ROUNDS = 2


def ours(graph: og.Graph, session: Any) -> dict[str, Callable[[], Any]]:
    """Our algorithms; what they find stays on Spark."""
    run = graph.algorithms

    def done(result: og.AlgorithmResult) -> None:
        result.to_spark().write.format("noop").mode("overwrite").save()

    on: dict[str, Any] = {"engine": "spark", "spark": session}
    return {
        "pagerank": lambda: done(run.pagerank(iterations=ITERATIONS, **on)),
        "connected_components": lambda: done(run.connected_components(**on)),
        "label_propagation": lambda: done(run.label_propagation(iterations=ITERATIONS, **on)),
        "shortest_paths": lambda: done(run.shortest_paths(sources="v00000000", **on)),
        "triangle_counts": lambda: done(run.triangle_counts(**on)),
    }


def graphframes(graph: og.Graph, session: Any) -> dict[str, Callable[[], Any]]:
    """The same by GraphFrames, through its interface in the JVM."""
    vertices = graph.vertices("V", columns=["name"], spark=session).withColumnRenamed("_id", "id")
    edges = graph.edges("E", columns=[], spark=session).selectExpr("_src AS src", "_dst AS dst")
    vertices, edges = vertices.cache(), edges.cache()
    first = vertices.where("name = 'v00000000'").first()["id"]
    edges.count()
    made = session._jvm.org.graphframes.GraphFrame.apply(vertices._jdf, edges._jdf)

    def done(frame: Any) -> None:
        frame.write().format("noop").mode("overwrite").save()

    def landmarks() -> Any:
        found = session._jvm.java.util.ArrayList()
        found.add(first)
        return found

    return {
        "pagerank": lambda: done(
            made.pageRank().resetProbability(0.15).maxIter(ITERATIONS).run().vertices()
        ),
        "connected_components": lambda: done(
            made.connectedComponents().setUseLocalCheckpoints(True).run()
        ),
        "label_propagation": lambda: done(made.labelPropagation().maxIter(ITERATIONS).run()),
        "shortest_paths": lambda: done(made.shortestPaths().landmarks(landmarks()).run()),
        "triangle_counts": lambda: done(made.triangleCount().run()),
    }


def main() -> None:
    """Print one JSON object: seconds of each contender and algorithm, the best of the rounds."""
    folder, jar = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    session = builder.config("spark.jars", jar).getOrCreate()
    figures: dict[str, Any] = {"spark": session.version, "algorithms": {}}
    with og.open(folder, "r") as graph:
        contenders = {
            "omnigraph": ours(graph, session),
            "graphframes": graphframes(graph, session),
        }
        for name in contenders["omnigraph"]:
            taken: dict[str, list[float]] = {each: [] for each in contenders}
            for _ in range(ROUNDS):
                for each, calls in contenders.items():
                    begin = perf_counter()
                    try:
                        calls[name]()
                    except Exception as error:  # noqa: BLE001 - told, and the others go on
                        print(f"{each} {name}: {str(error)[:300]}", file=sys.stderr)
                        continue
                    taken[each].append(perf_counter() - begin)
            best = {each: min(times) for each, times in taken.items() if times}
            figures["algorithms"][name] = best
            print(name, best, file=sys.stderr, flush=True)
    session.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
