"""Filling an empty graph: mixed NDJSON, Parquet, vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.load import generate
from bench.load.course import Course, Entry
from bench.load.figures import Part
from bench.load.parts.common import (
    FLOOR,
    FLOOR_PLAIN,
    INPROCESS,
    SPARK,
    at_most,
    bytes_of,
    faster,
    in_order,
    ours,
    parquet_files,
    small_graph,
)
from bench.load.schema import DIM, DOCS, TYPES

SPARK_ALONE: Final = "spark.read.json, write.parquet per type"
SPARK_AT_ONCE: Final = "spark.read.json, write.parquet parted by type"
LADYBUG: Final = "ladybug COPY"
PANDAS: Final = "pandas, lance.write_dataset"

# Those who take far longer than the others need not be measured as often to be told apart.
ROUNDS: Final = 5
PEER_ROUNDS: Final = 2
SMALL_DOCS: Final = 0.004
INPROCESS_MOST: Final = 1.3
SPARK_MOST: Final = 1.5
SPARK_ALONE_LEAST: Final = 2.0
LADYBUG_LEAST: Final = 1.0


def ndjson(course: Course, scale: float) -> Part:
    """Mixed lines."""
    folder = course.place.data("graph")
    size = generate.graph(folder, scale)
    source = folder / "graph.jsonl"
    small = small_graph(course)[0] / "graph.jsonl"
    told: dict[str, Any] = {"counts": size.counts, "bytes": source.stat().st_size}
    given: dict[str, Any] = {"rows": sum(size.counts.values()), **told}
    arguments, warm = _files(source), _files(small)
    entries = [
        Entry(name=FLOOR, call="bench.load.floor:ndjson", arguments=arguments, warm=warm, **given),
        Entry(
            name=FLOOR_PLAIN,
            call="bench.load.floor:ndjson",
            arguments={**arguments, "ids": False},
            warm={**warm, "ids": False},
            **given,
        ),
        ours(INPROCESS, str(source), str(small), **told),
        ours(SPARK, str(source), str(small), **told),
        Entry(
            name=SPARK_ALONE,
            call="bench.load.spark_alone:ndjson",
            arguments=arguments,
            warm=warm,
            rounds=PEER_ROUNDS,
            **given,
        ),
        Entry(
            name=SPARK_AT_ONCE,
            call="bench.load.spark_alone:ndjson_at_once",
            arguments=arguments,
            warm=warm,
            rounds=PEER_ROUNDS,
            **given,
        ),
    ]
    found = course.run(entries, ROUNDS)
    return Part(
        name="ndjson",
        title=f"Mixed NDJSON into an empty graph: {_size(source)}, {_rows(size)}",
        measured=in_order(found, entries),
        base=FLOOR,
        goals=(
            at_most(found, INPROCESS, FLOOR, INPROCESS_MOST),
            at_most(found, SPARK, FLOOR, SPARK_MOST),
            faster(found, SPARK, SPARK_ALONE, SPARK_ALONE_LEAST),
        ),
    )


def parquet(course: Course, scale: float) -> Part:
    """The same rows, typed already."""
    folder = course.place.data("graph")
    size = generate.graph(folder, scale)
    files = parquet_files(folder, TYPES)
    small_folder, _ = small_graph(course)
    small = parquet_files(small_folder, TYPES)
    # Told as what the rows are as NDJSON, so that the figures can be compared.
    text = (folder / "graph.jsonl").stat().st_size
    told: dict[str, Any] = {"counts": size.counts, "bytes": text}
    given: dict[str, Any] = {"rows": sum(size.counts.values()), **told}
    arguments, warm = _files(folder), _files(small_folder)
    entries = [
        Entry(name=FLOOR, call="bench.load.floor:parquet", arguments=arguments, warm=warm, **given),
        Entry(
            name=FLOOR_PLAIN,
            call="bench.load.floor:parquet",
            arguments={**arguments, "ids": False},
            warm={**warm, "ids": False},
            **given,
        ),
        ours(INPROCESS, files, small, **told),
        ours(SPARK, files, small, **told),
        Entry(
            name=LADYBUG,
            call="bench.load.ladybug:parquet",
            arguments=arguments,
            warm=warm,
            peer=True,
            rounds=PEER_ROUNDS,
            **given,
        ),
        Entry(
            name=PANDAS,
            call="bench.load.frames:parquet",
            arguments=arguments,
            warm=warm,
            rounds=PEER_ROUNDS,
            **given,
        ),
    ]
    found = course.run(entries, ROUNDS)
    return Part(
        name="parquet",
        title=f"Parquet into an empty graph: the same {_rows(size)}, {_mb(bytes_of(files))}",
        measured=in_order(found, entries),
        base=FLOOR,
        goals=(
            at_most(found, INPROCESS, FLOOR, INPROCESS_MOST),
            at_most(found, SPARK, FLOOR, SPARK_MOST),
            faster(found, INPROCESS, LADYBUG, LADYBUG_LEAST),
            faster(found, SPARK, LADYBUG, LADYBUG_LEAST),
        ),
        remarks=("MB/s counts the rows as NDJSON, not the packed files.",),
    )


def vectors(course: Course, scale: float) -> Part:
    """Documents with vectors, as Parquet."""
    folder = course.place.data("docs")
    count = generate.docs(folder, scale)
    files = parquet_files(folder, ["Doc"])
    small_folder = course.place.data("small-docs")
    generate.docs(small_folder, SMALL_DOCS)
    small = parquet_files(small_folder, ["Doc"])
    told: dict[str, Any] = {"counts": {"Doc": count}, "bytes": bytes_of(files)}
    given: dict[str, Any] = {"rows": count, **told}
    arguments = {"source": str(folder), "types": ["Doc"]}
    warm = {"source": str(small_folder), "types": ["Doc"]}
    entries = [
        Entry(name=FLOOR, call="bench.load.floor:parquet", arguments=arguments, warm=warm, **given),
        ours(INPROCESS, files, small, schema=DOCS, **told),
        ours(SPARK, files, small, schema=DOCS, **told),
        # These two take long enough to be sure.
        Entry(
            name=LADYBUG,
            call="bench.load.ladybug:parquet",
            arguments=arguments,
            peer=True,
            rounds=1,
            **given,
        ),
        Entry(
            name=PANDAS,
            call="bench.load.frames:parquet",
            arguments=arguments,
            rounds=1,
            **given,
        ),
    ]
    found = course.run(entries, ROUNDS)
    return Part(
        name="vectors",
        title=f"Vectors of {DIM} numbers as Parquet: {count:,} documents, {_mb(bytes_of(files))}",
        measured=in_order(found, entries),
        base=FLOOR,
        goals=(
            at_most(found, INPROCESS, FLOOR, INPROCESS_MOST),
            at_most(found, SPARK, FLOOR, SPARK_MOST),
            faster(found, INPROCESS, LADYBUG, LADYBUG_LEAST),
        ),
    )


def vector_lines(course: Course, scale: float) -> Part:
    """Some of the documents as NDJSON: the numbers are text there."""
    folder, small = course.place.data("docs"), course.place.data("small-docs")
    generate.docs(folder, scale)
    generate.docs(small, SMALL_DOCS)
    source, warm = folder / "docs.jsonl", small / "docs.jsonl"
    with source.open("rb") as lines:
        count = sum(1 for _ in lines)
    told: dict[str, Any] = {"counts": {"Doc": count}, "bytes": source.stat().st_size}
    floor = Entry(
        name=FLOOR,
        call="bench.load.floor:ndjson",
        arguments={"source": str(source), "types": ["Doc"]},
        warm={"source": str(warm), "types": ["Doc"]},
        rows=count,
        **told,
    )
    entries = [floor, ours(INPROCESS, str(source), str(warm), schema=DOCS, **told)]
    found = course.run(entries, ROUNDS)
    return Part(
        name="vector-lines",
        title=f"Vectors of {DIM} numbers as NDJSON: {count:,} documents, {_size(source)}",
        measured=in_order(found, entries),
        base=FLOOR,
    )


def _files(source: Path) -> dict[str, Any]:
    return {"source": str(source), "types": list(TYPES)}


def _rows(size: generate.Size) -> str:
    return f"{size.persons + size.companies:,} nodes and {size.knows + size.works:,} edges"


def _size(path: Path) -> str:
    return _mb(path.stat().st_size)


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
