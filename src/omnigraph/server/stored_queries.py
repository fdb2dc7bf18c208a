"""Stored queries: the `.gq` files of a served graph, read again when they change."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import Code, GraphError, NotFound
from omnigraph.lang import QueryCompiler
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.describe import describe
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.server.notes import warn


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """A query that can be called by its name."""

    name: str
    text: str
    description: str | None
    instruction: str | None


class StoredQueries:
    """The stored queries of one graph. Thread-safe."""

    def __init__(self, folder: Path | None) -> None:
        """Read the files of a folder, when they are asked for."""
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self._queries: dict[str, StoredQuery] = {}
        self.problems: dict[str, str] = {}

    def get(self, name: str) -> StoredQuery:
        """One query by its name.

        Raises:
            NotFound: There is none.
        """
        found = self._all().get(name)
        if found is None:
            raise NotFound(Code.NOT_FOUND, f"stored query '{name}' not found", query=name)
        return found

    def listed(self, catalog: Catalog) -> list[dict[str, Any]]:
        """The queries that fit the schema, with their parameters, as descriptions of tools."""
        compiler = QueryCompiler(catalog)
        found = []
        for query in sorted(self._all().values(), key=lambda each: each.name):
            try:
                plan = compiler.compile(query.text, query.name)
            except GraphError:
                continue
            item: dict[str, Any] = {
                "name": query.name,
                "tool_name": query.name,
                "mutation": isinstance(plan, MutationPlan),
                "params": [each.to_json() for each in describe(plan).params],
            }
            if query.description is not None:
                item["description"] = query.description
            if query.instruction is not None:
                item["instruction"] = query.instruction
            found.append(item)
        return found

    def _all(self) -> dict[str, StoredQuery]:
        if self._folder is None:
            return {}
        files = sorted(self._folder.glob("*.gq")) if self._folder.is_dir() else []
        stats = [(path, path.stat()) for path in files]
        stamp = tuple((path.name, stat.st_mtime_ns, stat.st_size) for path, stat in stats)
        with self._lock:
            if stamp != self._stamp:
                self._queries, self.problems = _read(files)
                self._stamp = stamp
                for name, problem in self.problems.items():
                    warn(stored_queries=str(self._folder / name), failure=problem)
            return self._queries


def _read(files: list[Path]) -> tuple[dict[str, StoredQuery], dict[str, str]]:
    found: dict[str, StoredQuery] = {}
    problems: dict[str, str] = {}
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
            diagnostics = Diagnostics(Source(path.name, text))
            parsed = parse_queries(diagnostics.source, diagnostics)
            diagnostics.reject_if_errors(Code.SYNTAX)
        except (OSError, ValueError, GraphError) as error:
            problems[path.name] = str(error)
            continue
        for query in parsed.queries:
            name = str(query.name.text)
            found[name] = StoredQuery(
                name=name,
                text=text,
                description=query.annotation("description"),
                instruction=query.annotation("instruction"),
            )
    return found, problems
