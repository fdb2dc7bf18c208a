"""Graphs as the original, written in Rust, has left them, in its formats 1 to 4.

Written with nothing but Lance, column by column as the original does it. Every graph has the same
content: Ada and Bo on main, later Di; a branch `feature` with Cy, made before Di came; an actor for
some of the commits. Format 1 has rows that two rivals landed, format 2 branches that runs left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa

from omnigraph.core.layout import table_path
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang import compile_schema

SCHEMA: Final = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
STAMP: Final = "omnigraph:internal_schema_version"
IDS: Final = tuple(f"01ARZ3NDEKTSV4RRFFQ69G5FA{letter}" for letter in "VWXYZ")
INIT, PEOPLE, EDGES, FEATURE, LATER = IDS
ACTORS: Final = {PEOPLE: "ada", FEATURE: "cy"}
RUN: Final = "__run__01ARZ3NDEKTSV4RRFFQ69G5FB0"
_KEY: Final = {"lance-schema:unenforced-primary-key": "true"}
_BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
_PERSON: Final = "node:Person"
_KNOWS: Final = "edge:Knows"


def manifest_schema(stamp: int | None) -> pa.Schema:
    """The manifest of the original: counts are unsigned, every row has a table key."""
    key = pa.field("object_id", pa.string(), nullable=False)
    fields = [
        key if stamp is None else key.with_metadata(_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
    return pa.schema(fields, metadata=None if stamp is None else {STAMP: str(stamp)})


_COMMITS: Final = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)
_ACTORS: Final = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)


def row(object_id: str, object_type: str, **values: object) -> dict[str, object]:
    """A row of the manifest."""
    return {"object_id": object_id, "object_type": object_type, "table_key": "", **values}


@dataclass(slots=True)
class Original:
    """A graph of the original in the making. `stamp` is None for format 1."""

    folder: Path
    stamp: int | None
    actors: bool = True
    columns: dict[str, pa.Schema] = field(init=False)
    places: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        catalog = compile_schema(SCHEMA)
        person, knows = catalog.nodes[0], catalog.edges[0]
        self.columns = {_PERSON: table_schema(person), _KNOWS: table_schema(knows)}
        self.places = {
            _PERSON: table_path("node", person.id),
            _KNOWS: table_path("edge", knows.id),
        }

    @property
    def _has_lineage(self) -> bool:
        """Whether the lineage is in the manifest, as in format 4."""
        return self.stamp is not None and self.stamp >= 4

    def write(self, path: str, rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
        return lance.write_dataset(
            pa.Table.from_pylist(rows, schema),
            self.folder / path,
            enable_stable_row_ids=True,
            data_storage_version="2.2",
        )

    def append(self, path: str, rows: list[dict[str, Any]], branch: str | None = None) -> int:
        place = self.folder / path
        if branch is not None:
            place = place / "tree" / branch
        schema = lance.dataset(place).schema
        found = lance.write_dataset(pa.Table.from_pylist(rows, schema), place, mode="append")
        return int(found.version)

    def fork(self, path: str, branch: str) -> None:
        dataset = lance.dataset(self.folder / path)
        dataset.create_branch(branch, dataset.version)

    def version_row(self, key: str, version: int, count: int, branch: str | None = None) -> Any:
        noted = {"manifest_path": "x", "manifest_size": 1, "e_tag": None, "naming_scheme": "V2"}
        return row(
            f"{key}${version:020}",
            "table_version",
            table_key=key,
            table_version=version,
            table_branch=branch,
            row_count=count,
            metadata=json.dumps(noted),
        )

    def commit(self, id: str, parent: str | None, version: int, branch: str | None = None) -> Any:
        """The rows by which a commit is noted, in the manifest or beside it."""
        at = _BEGIN + timedelta(seconds=IDS.index(id))
        if not self._has_lineage:
            return {
                "graph_commit_id": id,
                "manifest_branch": branch,
                "manifest_version": version,
                "parent_commit_id": parent,
                "created_at": at.replace(tzinfo=None),
            }
        plain: dict[str, Any] = {"created_at": int(at.timestamp() * 1_000_000)}
        plain |= {} if parent is None else {"parent_commit_id": parent}
        plain |= {"actor_id": ACTORS[id]} if self.actors and id in ACTORS else {}
        head = {"head_commit_id": id} | ({} if parent is None else {"parent_commit_id": parent})
        return [
            row(
                id,
                "graph_commit",
                table_branch=branch,
                table_version=version,
                metadata=json.dumps(plain),
            ),
            row(f"graph_head:{branch or 'main'}", "graph_head", metadata=json.dumps(head)),
        ]

    def publish(
        self, rows: list[Any], id: str, parent: str | None, branch: str | None = None
    ) -> None:
        """One commit of the original: the manifest first, the lineage with it or after it."""
        place = self.folder / "__manifest" / (f"tree/{branch}" if branch else "")
        version = int(lance.dataset(place).version) + 1
        noted = self.commit(id, parent, version, branch)
        if not self._has_lineage:
            assert self.append("__manifest", rows, branch) == version
            self.append("_graph_commits.lance", [noted], branch)
            return
        key = f"graph_head:{branch or 'main'}"
        dataset = lance.dataset(place)
        everything = pa.Table.from_pylist([*rows, *noted], dataset.schema)
        assert everything.column("object_id").to_pylist().count(key) == 1
        (
            dataset.merge_insert("object_id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(everything)
        )
        assert int(lance.dataset(place).version) == version

    def make(self) -> None:
        """Make the graph."""
        people, edges = self.places[_PERSON], self.places[_KNOWS]
        for key, place in self.places.items():
            self.write(place, [], self.columns[key])
        first = self.commit(INIT, None, 1)
        rows = [row(key, "table", table_key=key, location=p) for key, p in self.places.items()]
        rows += [self.version_row(key, 1, 0) for key in self.places]
        rows += first if self._has_lineage else []
        self.write("__manifest", rows, manifest_schema(self.stamp))
        if not self._has_lineage:
            self.write("_graph_commits.lance", [first], _COMMITS)
            if self.actors:
                noted = [
                    {
                        "graph_commit_id": id,
                        "actor_id": actor,
                        "created_at": _BEGIN.replace(tzinfo=None),
                    }
                    for id, actor in ACTORS.items()
                ]
                self.write("_graph_commit_actors.lance", noted, _ACTORS)
        self.append(people, [_person("Ada", 36), _person("Bo", None)])
        self.publish([self.version_row(_PERSON, 2, 2)], PEOPLE, INIT)
        self.append(edges, [{"id": "e1", "src": "Ada", "dst": "Bo"}])
        double = [self.version_row(_KNOWS, 2, 1)] if self.stamp is None else []
        self.publish([self.version_row(_KNOWS, 2, 1), *double], EDGES, PEOPLE)
        self._make_branch(people)
        self.append(people, [_person("Di", 4)])
        self.publish([self.version_row(_PERSON, 3, 3)], LATER, EDGES)
        if self.stamp == 2:
            self.fork("__manifest", RUN)
        (self.folder / "_schema.pg").write_text(SCHEMA)

    def _make_branch(self, people: str) -> None:
        self.fork("__manifest", "feature")
        if not self._has_lineage:
            self.fork("_graph_commits.lance", "feature")
        self.fork(people, "feature")
        version = self.append(people, [_person("Cy", 3)], "feature")
        rows = [self.version_row(_PERSON, version, 3, "feature")]
        self.publish(rows, FEATURE, EDGES, "feature")


def _person(name: str, age: int | None) -> dict[str, Any]:
    return {"id": name, "name": name, "age": age}


def make_original(folder: Path, number: int, *, actors: bool = True) -> None:
    """Write a graph of the original in one of its formats."""
    Original(folder, None if number == 1 else number, actors).make()
