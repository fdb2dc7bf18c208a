"""The target of a copy: a place that becomes a graph at once, or stays an unfinished copy.

A mark is written before anything else and removed after everything else. Opening the place in
between gives an error that says what it is. Doing the same copy again takes over what is there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.init import graph_exists, refuse_foreign_files
from omnigraph.core.layout import CLAIMS, COPY_MARK, INIT_CLAIM, MANIFEST
from omnigraph.core.locks.claims import Claim, open_claims
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.repository import Components
from omnigraph.core.schema.schema_state import AcceptedSchema, SchemaFiles
from omnigraph.errors import Busy, Code, Conflict
from omnigraph.store.failures import StorageFailure
from omnigraph.store.root import Root


class CopyTarget:
    """One place that a copy is made at."""

    def __init__(self, root: Root, parts: Components) -> None:
        """Write here."""
        self.root = root
        self._parts = parts

    @contextmanager
    def held(self, source: str) -> Iterator[Claim]:
        """Keep others from making a graph or a copy here.

        Raises:
            Conflict: There is a graph, or the unfinished copy of another one.
            InvalidInput: There are other files.
        """
        parts = self._parts
        claims = open_claims(parts.objects, parts.clock, parts.ids, LIVE_OPERATIONS)
        try:
            with claims.holding(INIT_CLAIM, wait_us=0) as claim:
                self._begin(source)
                yield claim
        except Busy as error:
            text = f"a graph or a copy is being made at {self.root.uri}"
            raise Conflict(Code.INIT_IN_PROGRESS, text, uri=self.root.uri) from error
        claims.clear(INIT_CLAIM)

    def _begin(self, source: str) -> None:
        objects = self._parts.objects
        if objects.exists(COPY_MARK):
            begun = _source(objects.get(COPY_MARK))
            if begun != source:
                text = (
                    f"{self.root.uri} holds an unfinished copy of {begun}: finish that one, or "
                    "remove what is there"
                )
                raise Conflict(Code.COPY_UNFINISHED, text, uri=self.root.uri, source=begun)
            return
        if self._parts.tables.exists(MANIFEST):
            raise graph_exists(self.root)
        refuse_foreign_files(self.root, objects)
        mark = json.dumps({"format": 1, "source": source, "copy": self._parts.ids.new()})
        objects.put_new(COPY_MARK, mark.encode())

    def sizes(self) -> dict[str, int]:
        """The files that are there, with their sizes; without what only the making needs."""
        return {
            info.path: info.size
            for info in self._parts.objects.list("")
            if info.path != COPY_MARK and not info.path.startswith(f"{CLAIMS}/")
        }

    def finish(self, planned: Collection[str], schema: AcceptedSchema) -> None:
        """Remove what does not belong to the copy, and make it a graph."""
        objects = self._parts.objects
        for path in self.sizes():
            if path not in planned:
                objects.delete(path)
        SchemaFiles(objects).write_copies(schema)
        try:
            guarded(Fp.COPY_FINISH, lambda: objects.delete(COPY_MARK))
        except StorageFailure as failure:
            # We hold the claim: if the mark is gone, the reply was lost.
            if failure.effect_free or objects.exists(COPY_MARK):
                raise


def _source(data: bytes) -> str | None:
    """The graph that an unfinished copy is of; None when its mark cannot be read."""
    try:
        return str(json.loads(data)["source"])
    except (KeyError, TypeError, ValueError):
        return None
