"""What is measured, by the name that the command line has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.load.course import Course
from bench.load.figures import Part
from bench.load.parts.bulk import ndjson, parquet, vector_lines, vectors
from bench.load.parts.export import export
from bench.load.parts.files import files
from bench.load.parts.large import packed, pieces, update
from bench.load.parts.memory import memory
from bench.load.parts.merge import merge
from bench.load.parts.start import start
from bench.load.parts.threshold import threshold

PARTS: Final[Mapping[str, Callable[[Course, float], Part]]] = {
    "ndjson": ndjson,
    "parquet": parquet,
    "vectors": vectors,
    "vector-lines": vector_lines,
    "files": files,
    "pieces": pieces,
    "packed": packed,
    "update": update,
    "start": start,
    "memory": memory,
    "merge": merge,
    "export": export,
    "threshold": threshold,
}
