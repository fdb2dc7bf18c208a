"""A stream of files into a graph, for tests: it can lose its checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import omnigraph as og
from omnigraph.types import LoadMode

T = TypeVar("T")
_STARTS_MAX = 5


def patiently(run: Callable[[], T]) -> T:
    """Run a stream, and again while Spark does not wait long enough for the Python that it starts.

    It waits ten seconds for the process of a source or a sink, which a busy machine may not give
    it. The stream goes on from its checkpoint.
    """
    for _ in range(_STARTS_MAX - 1):
        try:
            return run()
        except Exception as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return run()


class FileStream:
    """A stream of files into a graph, which can lose its checkpoint."""

    def __init__(
        self,
        graph: og.Graph,
        session: Any,
        folder: Path,
        mode: LoadMode = "merge",
        files_per_batch: int = 10,
    ) -> None:
        self.graph, self.session, self.mode = graph, session, mode
        self.files_per_batch = files_per_batch
        self.files, self.checkpoint = folder / "in", folder / "checkpoint"
        self.files.mkdir()

    def add(self, name: str, *people: tuple[str, int | None]) -> None:
        lines = [json.dumps({"name": who, "age": age}) for who, age in people]
        (self.files / name).write_text("\n".join(lines) + "\n")

    def run(self, sink: Any = None) -> None:
        patiently(lambda: self._run(sink))

    def _run(self, sink: Any) -> None:
        sink = sink or self.graph.stream_sink("Person", stream="people", mode=self.mode)
        reader = self.session.readStream.schema("name string, age int")
        query = (
            reader.option("maxFilesPerTrigger", self.files_per_batch)
            .json(str(self.files))
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .foreachBatch(sink)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    def ages(self) -> dict[str, int | None]:
        text = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
        return {row["name"]: row["age"] for row in self.graph.query(text)}

    def queries(self) -> set[object]:
        """The queries that have brought anything, as the commits tell."""
        told = (commit.details.get("stream") for commit in self.graph._repo.commits())
        return {each["query"] for each in told if isinstance(each, dict)}
