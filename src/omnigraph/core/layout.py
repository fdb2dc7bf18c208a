"""Where things lie below the root of a graph. Every name on disk is decided here."""

from __future__ import annotations

from omnigraph.lang.catalog.model import EntityKind

MANIFEST = "__manifest"
INTENTS = "__recovery"
AUDIT = "_graph_commit_recoveries.lance"
SCHEMAS = "_schemas"
SCHEMA_TEXT = "_schema.pg"
SCHEMA_IR = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
INIT_CLAIM = "__claims/init"
BRANCH_CLAIM = "__claims/branches"
STAGING = "__staging"  # what the tasks of a load exchange; nothing refers to it

_FOLDERS: dict[EntityKind, str] = {"node": "nodes", "edge": "edges"}


def table_path(kind: EntityKind, type_id: str) -> str:
    """The folder of a type's table."""
    return f"{_FOLDERS[kind]}/{type_id}"


def table_key(kind: EntityKind, name: str) -> str:
    """The key of a type in the manifest and in messages."""
    return f"{kind}:{name}"


def intent_path(operation_id: str) -> str:
    """The file of one intent."""
    return f"{INTENTS}/{operation_id}.json"


def schema_path(digest: str) -> str:
    """The file of one accepted catalog; its name is its content's digest."""
    return f"{SCHEMAS}/{digest}.json"
