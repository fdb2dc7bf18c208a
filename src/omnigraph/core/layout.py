"""Where things lie below the root of a graph. Every name on disk is decided here."""

from __future__ import annotations

import hashlib

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
CRADLES = "__born"  # forks of the manifest in which branches get their first commit

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


def fork_mark(incarnation: str) -> str:
    """What the names of all forks of tables begin with that belong to one branch."""
    return "f" + hashlib.sha256(incarnation.encode()).hexdigest()[:20]


def fork_name(incarnation: str, number: int = 0) -> str:
    """The name of a fork that a branch's tables get."""
    return f"{fork_mark(incarnation)}.{number}"


def cradle_name(operation_id: str, source: str) -> str:
    """The fork in which an operation gives a branch made from `source` its first commit."""
    return f"{CRADLES}/{operation_id}/{source}"


def cradle_parts(fork: str | None) -> tuple[str, str] | None:
    """The operation and the source that the name of a cradle tells; None for other forks."""
    folder, _, rest = (fork or "").partition("/")
    operation_id, _, source = rest.partition("/")
    return (operation_id, source) if folder == CRADLES and source else None
