"""The layout of a graph below its root. Every name on disk is decided here."""

from __future__ import annotations

import hashlib
import re

from omnigraph.lang.catalog.model import EntityKind
from omnigraph.store.integrity.quarantine import SET_ASIDE
from omnigraph.types import ULID

MANIFEST = "__manifest"
INTENTS = "__recovery"
AUDIT = "_graph_commit_recoveries.lance"
SCHEMAS = "_schemas"
SCHEMA_TEXT = "_schema.pg"
SCHEMA_IR = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
CLAIMS = "__claims"
INIT_CLAIM = f"{CLAIMS}/init"
BRANCH_CLAIM = f"{CLAIMS}/branches"
STORE_CLOCK = f"{CLAIMS}/clock"  # objects that are made to read the time of the store
COPY_MARK = "__copy.json"  # of a copy that is not finished, and so is no graph
CLEANUP_CLAIM = f"{CLAIMS}/cleanup"
HOLDS = "__holds"  # notes that a state is read for long
ORIGINAL_NOTE = "__original.json"  # of a graph that was taken over: the schema that it had
ORIGINAL_COMMITS = "_graph_commits.lance"  # where the original kept its lineage
ORIGINAL_ACTORS = "_graph_commit_actors.lance"
ORIGINAL_RUNS = "__run__"  # begins the names of forks that the original left
STAGING = "__staging"  # what the tasks of a load exchange; nothing refers to it
DELETED_BRANCHES = "__branches/deleted"
MERGED_BRANCHES = "__branches/merged"  # by merged branch, the branches that it was merged into
GENERATIONS = "__again"  # forks of the manifest of branches whose name was used before
STAGING_REFS = "__born"  # forks of the manifest that hold first commits of branches to be

_FOLDERS: dict[EntityKind, str] = {"node": "nodes", "edge": "edges"}
_TABLE_NAME = re.compile(rf"[0-9a-f]{{16}}(?:-(?:{ULID.pattern}))?")
# Every name that a graph has right below its root, but for the folders of its tables.
_OWN_NAMES = frozenset(
    path.partition("/")[0]
    for path in (
        MANIFEST,
        INTENTS,
        AUDIT,
        SCHEMAS,
        SCHEMA_TEXT,
        SCHEMA_IR,
        SCHEMA_STATE,
        INIT_CLAIM,
        STAGING,
        HOLDS,
        SET_ASIDE,
    )
)
# Made by systems, not by people: what a new volume has in its root.
_OF_SYSTEMS = frozenset({"lost+found", "System Volume Information", "Thumbs.db", "desktop.ini"})


def is_own_name(name: str) -> bool:
    """True for a name that a graph has right below its root, or that does no harm there."""
    return name in _OWN_NAMES or name in _OF_SYSTEMS or name.startswith(".")


def table_folders() -> tuple[str, ...]:
    """The folders that hold tables, and nothing else."""
    return tuple(_FOLDERS.values())


def is_table_name(name: str) -> bool:
    """True for a name that a table may have, in one of the folders of tables."""
    return _TABLE_NAME.fullmatch(name) is not None or name.startswith(".")


def table_path(kind: EntityKind, type_id: str) -> str:
    """The folder of a type's table, for the types that a graph is made with."""
    return f"{_FOLDERS[kind]}/{type_id}"


def new_table_path(kind: EntityKind, type_id: str, made_by: str) -> str:
    """The folder of the table that a type gets later, by one of those who may be at it at once."""
    return f"{table_path(kind, type_id)}-{made_by}"


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
    """The prefix of the names of all forks of tables that belong to one branch."""
    return "f" + hashlib.sha256(incarnation.encode()).hexdigest()[:20]


def fork_name(incarnation: str, number: int = 0) -> str:
    """The name of a fork that a branch's tables get."""
    return f"{fork_mark(incarnation)}.{number}"


def branch_fork(name: str, generation: int) -> str:
    """The fork of the manifest that is a branch: the first of its name, or a later one."""
    return f"{GENERATIONS}/{generation}/{name}" if generation else name


def branch_parts(fork: str) -> tuple[str, int]:
    """The name and the generation of the branch that a fork of the manifest is."""
    folder, _, rest = fork.partition("/")
    generation, _, name = rest.partition("/")
    is_later = folder == GENERATIONS and name and generation.isdigit()
    return (name, int(generation)) if is_later else (fork, 0)


def staging_ref(operation_id: str, source: str, attempt: int = 0) -> str:
    """The fork in which an operation writes the first commit of a branch made from `source`."""
    number = f".{attempt}" if attempt else ""
    return f"{STAGING_REFS}/{operation_id}{number}/{source}"


def staging_ref_parts(fork: str | None) -> tuple[str, str] | None:
    """The operation and the source in the name of a staging ref; None for other forks."""
    folder, _, rest = (fork or "").partition("/")
    operation, _, source = rest.partition("/")
    is_ref = folder == STAGING_REFS and source
    return (operation.partition(".")[0], source) if is_ref else None
