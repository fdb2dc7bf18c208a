"""The options of the `omnigraph` format as what they name: a type at one state of a graph."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.revisions import Revisions, parse_time
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.source.model import TypeRef
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.source import did_you_mean
from omnigraph.runtime.environment import storage_options
from omnigraph.store.failures import StorageFailure
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName, TagName

_STORAGE = "storage."
_BOTH = frozenset({"path", "type", "branch"})
_CHANGES = frozenset({"changes", "changesfrom", "changesto"})
_READS = _BOTH | _CHANGES | {"at", "columns", "commit", "tag", "time", "where"}
_WRITES = _BOTH | {
    *("actor", "cascade", "idempotency_key", "merge", "replace"),
    *("violations_file", "violations_max"),
}
# CREATE TABLE hands its options over twice, once after this, along with properties of its own.
_OF_TABLE = "option."
_TABLE_PROPERTIES = frozenset({"external", "is_managed_location", "location", "owner", "provider"})
# What Lance says around a reason to refuse a condition: kinds of errors, places in its source.
_AROUND_REASON = re.compile(r"Invalid user input: |Schema error: |, /\S+\.rs:\d+:\d+")
_NEEDS = (
    'the format `omnigraph` needs .option("{name}", …). Spark hands over no options when a table '
    "of its catalog is written, or when one is read that was not made by CREATE TABLE name USING "
    "omnigraph OPTIONS (path …, type …), without a list of columns: use spark.read and "
    "df.write…save() with these options"
)


class Opened:
    """The type that options name, at the state that they name."""

    def __init__(self, options: Mapping[str, str], *, mode: OpenMode = OpenMode.READ_ONLY) -> None:
        """Open the graph and look the type up."""
        # Spark starts this process, so only its own environment has it.
        self.variables: Mapping[str, str] = os.environ
        self.root = graph_root(options, self.variables)
        known = _READS if mode is OpenMode.READ_ONLY else _WRITES
        for name in options:
            lower = name.lower()
            if lower not in known and not lower.startswith(_STORAGE):
                raise _unknown_option(name, known)
        self.repo = Repository.open(self.root, components(self.root), mode)
        branch = BranchName(options.get("branch", str(MAIN)))
        self.snapshot = _state(self.repo, branch, options)
        self.catalog: Catalog = self.repo.schema(self.snapshot).catalog
        self.entity: EntityType = entity_named(_required(options, "type"), self.catalog)
        self.where = self._checked(options.get("where"))
        self.columns = _columns(options.get("columns"), table_schema(self.entity).names)

    def _checked(self, where: str | None) -> str | None:
        """A condition that the scan understands."""
        if where is None:
            return None
        table = self.repo.table(self.snapshot.pin(table_key(self.entity.kind, self.entity.name)))
        try:
            # Planning is enough to find what is wrong with it.
            table.scan(["id"], filter=where).close()
        except StorageFailure as failure:
            refusal = failure.__cause__
            if not isinstance(refusal, ValueError):
                raise
            reason = _AROUND_REASON.sub("", str(refusal).strip().splitlines()[0])
            text = f"the condition {where!r:.200} cannot be applied: {reason}"
            raise InvalidInput(Code.INPUT_INVALID, text, where=where) from failure
        return where

    @property
    def type(self) -> TypeRef:
        """The type by name."""
        return TypeRef(kind=self.entity.kind, name=self.entity.name)


def options_of_table(properties: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a CREATE TABLE among its properties; None if these are of no table."""
    if not any(name.lower().startswith(_OF_TABLE) for name in properties):
        return None
    found = {
        name: value
        for name, value in properties.items()
        if not name.lower().startswith(_OF_TABLE) and name.lower() not in _TABLE_PROPERTIES
    }
    if (path := found.get("path", "")).startswith("file:"):
        # A path becomes an address there.
        found["path"] = unquote(urlsplit(path).path)
    return found


def graph_root(options: Mapping[str, str], variables: Mapping[str, str]) -> Root:
    """The place of the graph that options name; variables may say how to reach it."""
    path = _required(options, "path")
    given = {
        name[len(_STORAGE) :]: value
        for name, value in options.items()
        if name.lower().startswith(_STORAGE)
    }
    return Root.parse(path, {**storage_options(path, variables), **given})


def entity_named(name: str, catalog: Catalog) -> EntityType:
    """The type of this name; `node:` or `edge:` before it chooses between two of one name."""
    kind, _, bare = name.rpartition(":")
    found: list[EntityType] = []
    if kind in ("", "node") and bare in catalog.node_by_name:
        found.append(catalog.node_by_name[bare])
    if kind in ("", "edge") and bare in catalog.edge_by_name:
        found.append(catalog.edge_by_name[bare])
    if len(found) == 1:
        return found[0]
    if found:
        text = f"'{name}' is a node type and an edge type: say node:{name} or edge:{name}"
    else:
        known = [item.name for item in (*catalog.nodes, *catalog.edges)]
        near = did_you_mean(bare, known)
        text = f"the graph has no type '{name}'" + (f"; {near}" if near else "")
    raise InvalidInput(Code.INPUT_INVALID, text, type=name)


def flag(options: Mapping[str, str], name: str) -> bool:
    """True if an option says yes."""
    text = options.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        message = f"option {name} is true or false, not '{text}'"
        raise InvalidInput(Code.INPUT_INVALID, message, option=name)
    return text == "true"


def whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    """The number that an option gives."""
    text = options.get(name, str(default)).strip()
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        message = f"option {name} is a number from 1 on, not '{text}'"
        raise InvalidInput(Code.INPUT_INVALID, message, option=name)
    return int(text)


def _state(repo: Repository, branch: BranchName, options: Mapping[str, str]) -> GraphVersion:
    """The state that the options name: the newest, that of a revision, of a tag or of a time."""
    given = {name: options[name] for name in ("commit", "tag", "at", "time") if name in options}
    if len(given) > 1:
        text = f"give one of the options {' and '.join(given)}, not {len(given)}"
        raise InvalidInput(Code.INPUT_INVALID, text)
    for name, text in given.items():
        if name == "tag":
            tag = repo.refs.tag(TagName(text))
            return repo.snapshot_at(tag.commit, tag.branch)
        revision = parse_time(text) if name == "time" else text
        return Revisions(repo).resolve(revision, branch)
    return repo.snapshot(branch)


def _columns(text: str | None, known: list[str]) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.strip():
        return ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            message = f"the type has no column '{name}'" + (f"; {near}" if near else "")
            raise InvalidInput(Code.INPUT_INVALID, message, column=name, known=known)
    return names


def _required(options: Mapping[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        text = _NEEDS.format(name=name)
        raise InvalidInput(Code.INPUT_INVALID, text, option=name)
    return value


def _unknown_option(name: str, known: frozenset[str]) -> InvalidInput:
    near = did_you_mean(name, sorted(known))
    text = f"the format `omnigraph` has no option '{name}'" + (f"; {near}" if near else "")
    return InvalidInput(Code.INPUT_INVALID, text, option=name, known=sorted(known))
