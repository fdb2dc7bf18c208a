"""The indexes that a type should have, and building those that are missing.

Indexes are derived: answers never depend on them and no write waits for them. Building them is a
write of its own that changes no row, published like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import table_key
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.lang.catalog.model import EntityType, Property
from omnigraph.lang.values import Base
from omnigraph.store import tuning
from omnigraph.store.maintenance.shape import TableProbe
from omnigraph.store.tables import (
    KEY_FILTER,
    Btree,
    Fts,
    IndexSpec,
    KeyFilter,
    Table,
    Vector,
)
from omnigraph.types import MAIN, BranchName, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIndex:
    """An index that could not be built, and why."""

    table_key: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """The result of `ensure_indices`. `published` is None when nothing was missing."""

    published: Published | None
    built: tuple[tuple[str, str], ...]  # table key and index name
    pending: tuple[PendingIndex, ...]


def wanted_indexes(entity: EntityType) -> tuple[IndexSpec, ...]:
    """The indexes of a type: identity always, and those that its schema declares.

    Enums and ordered scalars get an ordered index; free text gets an ordered one for equality and
    a word index for search; vectors get a nearest-neighbour index. Several columns together, lists
    and blobs get none: no reader could use it.
    """
    specs = [_ordered(name) for name in _fixed(entity)]
    single = {columns[0] for columns in entity.indexes if len(columns) == 1}
    # Writing a unique value looks for it; of several columns together one finds few enough.
    unique = {columns[0] for columns in entity.uniques}
    for item in entity.properties:
        if item.name in single or item.name in entity.key:
            specs += _specs(item)
        elif item.name in unique and item.type.is_scalar:
            specs.append(_ordered(item.name))
    return tuple(specs)


def _fixed(entity: EntityType) -> tuple[str, ...]:
    """The columns by which writes look for rows."""
    return ("id",) if entity.kind == "node" else ("id", "src", "dst")


def fitting_indexes(
    entity: EntityType, existing: Iterable[tuple[str, tuple[str, ...]]]
) -> tuple[IndexSpec, ...]:
    """The indexes of a type under the names that they have in its table, or would get there.

    A column that was renamed keeps its index, which is named after what the column was called.
    `existing` are the names and the columns of the indexes that the table has.
    """
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for name, columns in existing:
        taken.add(name)
        if len(columns) == 1:
            names[columns[0], _use(name)] = name
    found: list[IndexSpec] = []
    for spec in wanted_indexes(entity):
        name = names.get((spec.column, _use(spec.name)), spec.name)
        is_here = (spec.column, _use(spec.name)) in names
        number = 2
        while not is_here and name in taken:
            name = f"{spec.column}_{number}_{_use(spec.name)}"
            number += 1
        found.append(replace(spec, name=name))
    return tuple(found)


def _use(name: str) -> str:
    """The purpose of an index, which is how its name ends."""
    return name.rpartition("_")[2]


def _specs(item: Property) -> list[IndexSpec]:
    kind = item.type
    if kind.base is Base.VECTOR:
        metric = Metric.COSINE if item.metric is None else item.metric
        return [IndexSpec(item.name, Vector(metric, kind.dim), f"{item.name}_vector")]
    if not kind.is_scalar:
        return []
    if kind.base is Base.STRING and not kind.enum:
        return [_ordered(item.name), IndexSpec(item.name, Fts(), f"{item.name}_text")]
    return [_ordered(item.name)]


def _ordered(column: str) -> IndexSpec:
    return IndexSpec(column, Btree(), f"{column}_ordered")


def ensure_indices(
    repo: Repository,
    branch: BranchName = MAIN,
    *,
    actor: str | None = None,
    message: str | None = None,
) -> IndexReport:
    """Build every missing or damaged index of a branch; one commit, or none if all are there."""
    repo.require_writable()
    snapshot = repo.snapshot(branch)
    catalog = repo.schema(snapshot).catalog
    writes: list[TableWrite] = []
    built: list[tuple[str, str]] = []
    pending: list[PendingIndex] = []
    for entity in (*catalog.nodes, *catalog.edges):
        key = table_key(entity.kind, entity.name)
        table = repo.table(snapshot.pin(key))
        ready = []
        with storage_errors():
            for spec in _missing(table, entity):
                reason = not_yet(table, spec)
                if reason is None:
                    ready.append(spec)
                else:
                    pending.append(PendingIndex(table_key=key, column=spec.column, reason=reason))
        if not ready:
            continue
        target = repo.writable_table(snapshot, key)
        with repo.preparing(snapshot):
            staged = repo.tables.stage_indexes(target, ready, uuid=repo.ids.new())
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
            built += [(key, spec.name) for spec in ready]
    published = _published(repo, snapshot, writes, actor, message) if writes else None
    return IndexReport(published=published, built=tuple(built), pending=tuple(pending))


def filter_keys(
    repo: Repository,
    branch: BranchName,
    keys: Collection[str],
    written: int,
    *,
    actor: str | None = None,
) -> Published | None:
    """Give large tables that have no index of their keys a filter, in one commit.

    An optimisation builds ordered indexes in their place.

    Args:
        repo: The graph.
        branch: Where the tables were written to.
        keys: The tables that were written to.
        written: How many rows were written; after few, the sizes of tables are not looked up.
        actor: On whose behalf.
    """
    if written < tuning.active.filtered_load_rows_min:
        return None
    snapshot = repo.snapshot(branch)
    catalog = repo.schema(snapshot).catalog
    writes: list[TableWrite] = []
    for entity in (*catalog.nodes, *catalog.edges):
        key = table_key(entity.kind, entity.name)
        if key not in keys or snapshot.pin(key).row_count < tuning.active.filtered_rows_min:
            continue
        with storage_errors():
            specs = _filters(repo.table(snapshot.pin(key)), entity)
        if not specs:
            continue
        target = repo.writable_table(snapshot, key)
        with repo.preparing(snapshot):
            staged = repo.tables.stage_indexes(target, specs, uuid=repo.ids.new())
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    return _published(repo, snapshot, writes, actor, None) if writes else None


def _filters(table: Table, entity: EntityType) -> list[IndexSpec]:
    """The filters that a table needs: where many rows are outside of any index of the column."""
    known = {index.columns: index for index in table.indexes()}
    found = []
    for column in _fixed(entity):
        index = known.get((column,))
        if index is not None and index.type != KEY_FILTER:
            continue  # the next optimization does it
        covered = frozenset() if index is None else index.fragments
        bare = sum(rows for fragment, rows in table.fragment_rows() if fragment not in covered)
        if tuning.active.filtered_rows_min <= bare <= tuning.active.filtered_rows_max:
            found.append(replace(_ordered(column), kind=KeyFilter()))
    return found


def _published(
    repo: Repository,
    snapshot: GraphVersion,
    writes: Sequence[TableWrite],
    actor: str | None,
    message: str | None,
) -> Published:
    commit = repo.new_commit(snapshot, WriterKind.ENSURE_INDICES)
    return repo.commit(
        Prepared(
            base=snapshot,
            commit=replace(commit, actor=actor, message=message),
            tables=tuple(writes),
        )
    )


def _missing(table: Table, entity: EntityType) -> list[IndexSpec]:
    indexes = table.indexes()
    specs = fitting_indexes(entity, ((index.name, index.columns) for index in indexes))
    known = {each.name for each in indexes if each.type != KEY_FILTER} - table.damaged_indexes()
    return [spec for spec in specs if spec.name not in known]


def not_yet(table: Table, spec: IndexSpec) -> str | None:
    """The reason for which an index cannot be built now; None when it can."""
    if table.row_count == 0:
        return "the table is empty"
    if isinstance(spec.kind, Vector) and not TableProbe(table).has_values(spec.column):
        return "no entity has a vector"
    return None
