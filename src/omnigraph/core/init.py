"""Making a graph. It exists once its manifest exists, and the manifest is made last.

A claim keeps two makers apart. Whatever a maker that died left behind is unreferenced, so the next
one takes the claim over, sweeps up and starts again.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from omnigraph.core.commits.records import (
    ARROW_SCHEMA,
    FORMAT_VERSION,
    KEY,
    CommitRecord,
    HeadRecord,
    Record,
    TableRecord,
    VersionRecord,
    encode,
    format_metadata,
)
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.layout import (
    COPY_MARK,
    INIT_CLAIM,
    MANIFEST,
    is_own_name,
    is_table_name,
    table_folders,
    table_key,
    table_path,
)
from omnigraph.core.locks.claims import Claims
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.schema.schema_state import AcceptedSchema, SchemaFiles
from omnigraph.errors import Busy, Code, Conflict, InvalidInput
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.failpoints import hit
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables
from omnigraph.types import MAIN, CommitId

_SHOWN_NAMES_MAX = 5


def create_graph(
    root: Root,
    schema: AcceptedSchema,
    tables: Tables,
    claims: Claims,
    clock: Clock,
    ids: Ids,
    actor: str | None = None,
) -> None:
    """Make a graph with this schema, on behalf of an actor; refuse if there is one."""
    if root.is_local and "?" in root.uri:
        # Lance takes what follows for the query of a URL when it looks for the trunk of a fork.
        text = f"branches cannot be written under {root.uri!r}: choose a path without '?'"
        raise InvalidInput(Code.INPUT_INVALID, text, uri=root.uri)
    if root.is_local and root.local_path.is_file():
        text = f"{root.uri} is a file; a graph needs a folder of its own"
        raise InvalidInput(Code.FOLDER_NOT_EMPTY, text, uri=root.uri)
    refuse_unfinished_copy(root, claims.objects)
    if tables.exists(MANIFEST):
        raise graph_exists(root)
    refuse_foreign_files(root, claims.objects)
    try:
        with claims.holding(INIT_CLAIM, wait_us=0):
            # Only now is it certain that no other process makes one: between the look and the claim
            # a whole graph can have been made, and its tables must not be taken for leftovers.
            if tables.exists(MANIFEST):
                raise graph_exists(root)
            hit(Fp.INIT_CLAIMED)
            records = _make_tables(schema, claims.objects, tables)
            hit(Fp.INIT_TABLES)
            files = SchemaFiles(claims.objects)
            digest = files.keep(schema)
            files.write_copies(schema)
            hit(Fp.INIT_SCHEMA)
            genesis = CommitRecord(
                id=CommitId(ids.new()),
                parent_id=None,
                branch=MAIN,
                actor=actor,
                created_at=clock.now_us(),
                kind="init",
            )
            head = HeadRecord(branch=MAIN, commit=genesis.id, schema_digest=digest)
            _make_manifest(root, [*records, genesis, head], tables)
            hit(Fp.INIT_MANIFEST)
    except Busy as error:
        if tables.exists(MANIFEST):
            raise graph_exists(root) from error
        text = f"a graph is being made at {root.uri}"
        raise Conflict(Code.INIT_IN_PROGRESS, text, uri=root.uri) from error
    # The manifest is there, so the claim is never needed again.
    claims.clear(INIT_CLAIM)


def refuse_unfinished_copy(root: Root, objects: ObjectStore) -> None:
    """Refuse a place that holds the beginning of a copy: it is no graph, and never looks like one.

    Raises:
        Conflict: COPY_UNFINISHED.
    """
    if objects.exists(COPY_MARK):
        text = (
            f"{root.uri} holds a copy of a graph that is not finished: make the same copy again, "
            "which goes on with it (`omnigraph clone`), or remove what is there"
        )
        raise Conflict(Code.COPY_UNFINISHED, text, uri=root.uri)


def refuse_foreign_files(root: Root, objects: ObjectStore) -> None:
    """Refuse a place that holds what no graph has; what a maker that died left behind is ours."""
    folders = table_folders()
    top = objects.children("")
    foreign = [name for name in top if name not in folders and not is_own_name(name)]
    for folder in folders:
        if folder in top:
            foreign += _no_tables(folder, objects)
    if foreign:
        shown = ", ".join(foreign[:_SHOWN_NAMES_MAX]) + (
            ", ..." if len(foreign) > _SHOWN_NAMES_MAX else ""
        )
        text = f"{root.uri} is not empty: {shown}. Give a graph a folder of its own"
        raise InvalidInput(
            Code.FOLDER_NOT_EMPTY,
            text,
            uri=root.uri,
            names=foreign[:_SHOWN_NAMES_MAX],
            count=len(foreign),
        )


def _no_tables(folder: str, objects: ObjectStore) -> list[str]:
    try:
        names = objects.children(folder)
    except StorageFailure as failure:
        if failure.kind is not FailureKind.INVALID:
            raise
        return [folder]  # a file
    return [f"{folder}/{name}" for name in names if not is_table_name(name)]


def _make_tables(schema: AcceptedSchema, objects: ObjectStore, tables: Tables) -> list[Record]:
    records: list[Record] = []
    schemas: dict[str, pa.Schema] = {}
    for entity in (*schema.catalog.nodes, *schema.catalog.edges):
        path = table_path(entity.kind, entity.id)
        key = table_key(entity.kind, entity.name)
        schemas[path] = table_schema(entity)
        records.append(TableRecord(table_key=key, location=path))
        records.append(
            VersionRecord(table_key=key, location=path, version=1, table_branch=None, row_count=0)
        )
    _remove_leftovers(schemas, objects)
    tables.create_empty(schemas)
    return records


def _remove_leftovers(paths: Collection[str], objects: ObjectStore) -> None:
    """Remove what a maker that died left where tables are to be."""
    for folder in table_folders():
        for name in objects.children(folder):
            if f"{folder}/{name}" in paths:
                for info in objects.list(f"{folder}/{name}"):
                    objects.delete(info.path)


def _make_manifest(root: Root, records: list[Record], tables: Tables) -> None:
    def make() -> int:
        return tables.create(
            MANIFEST,
            ARROW_SCHEMA,
            primary_key=KEY,
            metadata=format_metadata(FORMAT_VERSION),
            rows=encode(records, manifest_version=1),
            row_ids=False,
        )

    try:
        guarded(Fp.INIT_PUBLISH, make)
    except StorageFailure as failure:
        if failure.kind is FailureKind.EXISTS:
            raise graph_exists(root) from failure
        # We hold the claim: if it is there, it is ours and the reply was lost.
        if failure.effect_free or not tables.exists(MANIFEST):
            raise


def graph_exists(root: Root) -> Conflict:
    """The refusal to make a graph where one is."""
    text = f"there is a graph at {root.uri} already"
    return Conflict(Code.GRAPH_EXISTS, text, uri=root.uri)
