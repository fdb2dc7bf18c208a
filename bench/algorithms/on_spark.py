"""Ours and GraphFrames in one session: `python -m bench.algorithms.on_spark GRAPH JAR ROUNDS`.

Both are given what is best for them: a graph that was read before. GraphFrames has vertices and
edges with numbers for ids, cached; its own fastest settings are left as they are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph as og

ITERATIONS = 5


def processor_seconds() -> float:
    """What this process and all that it started have used: the JVM and the workers of Spark."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(folder.name)
        parents[pid] = int(words[1])
        # Of its own, in itself and in the system; and of children that have ended.
        ticks[pid] = sum(map(int, words[11:15]))
    family = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


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
    """Print one JSON object: processor seconds of each contender and algorithm, the best round."""
    folder, jar, rounds = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.jars", jar).getOrCreate()
    figures: dict[str, Any] = {"spark": session.version, "algorithms": {}}
    with og.open(folder, "r") as graph:
        contenders = {
            "omnigraph": ours(graph, session),
            "graphframes": graphframes(graph, session),
        }
        for name in contenders["omnigraph"]:
            taken: dict[str, list[float]] = {each: [] for each in contenders}
            for _ in range(int(rounds)):
                for each, calls in contenders.items():
                    begin = processor_seconds()
                    try:
                        calls[name]()
                    except Exception as error:  # noqa: BLE001 - told, and the others go on
                        print(f"{each} {name}: {str(error)[:300]}", file=sys.stderr)
                        continue
                    taken[each].append(processor_seconds() - begin)
            best = {each: min(times) for each, times in taken.items() if times}
            figures["algorithms"][name] = best
            print(name, best, file=sys.stderr, flush=True)
    session.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
