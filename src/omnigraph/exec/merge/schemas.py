"""The schemas of a merge: those of its three states, and the one that comes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import (
    TypeState,
    altered_columns,
    counterpart,
    is_altered,
    kept_types,
    type_state,
)
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.errors import Code, Conflict
from omnigraph.exec.changes.diff import table_changes
from omnigraph.exec.schema_change.alterations import blob_in_the_way
from omnigraph.lang.catalog.canonical import shape_digest
from omnigraph.lang.catalog.merge import SchemaConflict, merge_catalogs
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.schema.render import schema_text
from omnigraph.runtime import cancellation


@dataclass(frozen=True, slots=True, eq=False)
class TypeSides:
    """One type of the merged schema, as the three states of a merge have it.

    Attributes:
        entity: The type as it will be.
        base: The type at the merge base; None when it was not declared there.
        ours: The type on our side.
        theirs: The type on their side.
    """

    entity: EntityType
    base: TypeState | None
    ours: TypeState | None
    theirs: TypeState | None

    @property
    def is_unchanged(self) -> bool:
        """True if neither side has changed the table of the type, or theirs does not have it."""
        pins = {None if each is None else each.pin for each in (self.base, self.ours, self.theirs)}
        return self.theirs is None or len(pins) == 1

    @property
    def is_altered(self) -> bool:
        """True if the table of our side has other columns than it will have."""
        return self.ours is not None and is_altered(self.ours.entity, self.entity)

    @property
    def is_native(self) -> bool:
        """True if both sides have the columns that the table will have."""
        sides = (self.ours, self.theirs)
        return all(each is not None and not is_altered(each.entity, self.entity) for each in sides)

    @property
    def key(self) -> str:
        """The key of the table as it will be."""
        return table_key(self.entity.kind, self.entity.name)

    @property
    def their_key(self) -> str:
        """The key of the table on their side."""
        known = self.entity if self.theirs is None else self.theirs.entity
        return table_key(known.kind, known.name)

    @property
    def our_key(self) -> str:
        """The key of the table on our side."""
        known = self.entity if self.ours is None else self.ours.entity
        return table_key(known.kind, known.name)


@dataclass(frozen=True, slots=True, eq=False)
class MergedSchema:
    """The schemas of the three states of a merge, and the one that comes of them."""

    base: Catalog
    ours: Catalog
    theirs: Catalog
    accepted: AcceptedSchema
    is_new: bool  # our branch has another one

    @property
    def catalog(self) -> Catalog:
        """The catalog that comes of them."""
        return self.accepted.catalog

    def against(self, base: Catalog) -> MergedSchema:
        """The same outcome, seen from another merge base."""
        return replace(self, base=base)


def merged_schema(
    repo: Repository,
    bases: Sequence[GraphVersion],
    root: GraphVersion | None,
    ours: GraphVersion,
    theirs: GraphVersion,
    names: tuple[str, str],
) -> MergedSchema:
    """Merge the schemas of three states.

    Our state may be the merge base: then all of its rows get what theirs have.

    Args:
        repo: The graph.
        bases: The merge bases, the latest first; what is returned is seen from that one.
        root: The state that several bases come from; with it their schemas are merged, too.
        ours: The state that is merged into.
        theirs: The state that is merged.
        names: What to call the two sides in conflicts.

    Raises:
        Conflict: Both sides changed the schema in ways that do not go together, or one side has
            dropped what the other one has changed. It names each of them.
    """
    mine, other = (repo.schema(each) for each in (ours, theirs))
    before = repo.schema(bases[0]).catalog
    if len({each.schema_digest for each in (*bases, ours, theirs)}) == 1:
        return MergedSchema(before, mine.catalog, mine.catalog, mine, is_new=False)
    shared = _shared_catalog(repo, bases, root, names)
    found = merge_catalogs(shared, mine.catalog, other.catalog, names)
    if found.conflicts:
        raise _refused(names, found.conflicts)
    shape = shape_digest(found.catalog)
    texts = [each.text for each in (mine, other) if shape_digest(each.catalog) == shape]
    text = texts[0] if texts else schema_text(found.catalog)
    accepted = AcceptedSchema(catalog=found.catalog, text=text)
    merged = MergedSchema(
        before,
        mine.catalog,
        other.catalog,
        accepted,
        is_new=accepted.digest != ours.schema_digest,
    )
    conflicts = [
        *_dropped_types(repo, merged.against(shared), bases, (ours, theirs), names),
        *(() if ours.head == bases[0].head else _unfit_columns(repo, merged, ours, names)),
        *_blobs_in_the_way(merged, names),
    ]
    if conflicts:
        raise _refused(names, tuple(conflicts))
    return merged


def _refused(names: tuple[str, str], conflicts: tuple[SchemaConflict, ...]) -> Conflict:
    mine, other = names
    lines = [f"{item.entity}: {item.reason}" for item in conflicts]
    text = f"the schemas of '{mine}' and '{other}' cannot be merged:\n" + "\n".join(lines)
    plain = [{"entity": item.entity, "reason": item.reason} for item in conflicts]
    return Conflict(Code.MERGE_CONFLICT, text, schema_conflicts=plain)


def _shared_catalog(
    repo: Repository,
    bases: Sequence[GraphVersion],
    root: GraphVersion | None,
    names: tuple[str, str],
) -> Catalog:
    """The catalog since which the sides have changed theirs: of several bases, what they make."""
    latest, *others = (repo.schema(each).catalog for each in bases)
    if root is None:
        return latest
    shared = latest
    for other in others:
        found = merge_catalogs(repo.schema(root).catalog, shared, other, names)
        if found.conflicts:
            return latest
        shared = found.catalog
    return shared


def _dropped_types(
    repo: Repository,
    merged: MergedSchema,
    bases: Sequence[GraphVersion],
    states: tuple[GraphVersion, GraphVersion],
    names: tuple[str, str],
) -> Iterator[SchemaConflict]:
    """Types that one side has dropped while the other one changed entities of them."""
    ours, theirs = states
    for entity in (*merged.base.nodes, *merged.base.edges):
        if counterpart(merged.catalog, entity) is not None:
            continue
        sides = ((ours, merged.ours, names), (theirs, merged.theirs, names[::-1]))
        for state, catalog, (one, another) in sides:
            after = type_state(state, catalog, entity)
            count = 0 if after is None else _changed_entities(repo, bases, after, entity)
            if count:
                reason = f"'{one}' changed entities ({count:,}), and '{another}' dropped the type"
                yield SchemaConflict(entity=f"{entity.kind} {entity.name}", reason=reason)


def _changed_entities(
    repo: Repository, bases: Sequence[GraphVersion], after: TypeState, entity: EntityType
) -> int:
    """The number of entities of a type that have changed since all merge bases that have it."""
    known = (type_state(each, repo.schema(each).catalog, entity) for each in bases)
    befores = [each for each in known if each is not None]
    if any(each.pin == after.pin for each in befores):
        return 0
    found = [table_changes(repo.type_diff(each, after, entity), entity) for each in befores]
    if len(found) == 1:
        return found[0].counts().total
    ids = [set(each.keys().keys.column("id").to_pylist()) for each in found]
    return len(set.intersection(*ids)) if ids else 0


def _unfit_columns(
    repo: Repository, merged: MergedSchema, ours: GraphVersion, names: tuple[str, str]
) -> Iterator[SchemaConflict]:
    """Properties that get a type which the values of our side do not fit."""
    for old, new in kept_types(merged.ours, merged.catalog):
        pin = ours.pin(table_key(old.kind, old.name))
        for column in altered_columns(old, new):
            name, source = str(column.field.name), column.source
            if source is None or old.property_by_name.get(source) is None:
                continue
            kind = old.property_by_name[source].type
            if kind.base is new.property_by_name[name].type.base:
                continue
            table = repo.table(pin)
            values = (batch.column(0) for batch in table.scan([source]))
            if not all(_fits(each, column.field.type) for each in values):
                wanted = new.property_by_name[name].type.required()
                reason = f"'{names[0]}' has values that do not fit {wanted}"
                yield SchemaConflict(entity=f"{new.kind} {new.name}.{name}", reason=reason)


def _blobs_in_the_way(merged: MergedSchema, names: tuple[str, str]) -> Iterator[SchemaConflict]:
    for old, new in kept_types(merged.ours, merged.catalog):
        if name := blob_in_the_way(old, new):
            reason = f"the blob property {name} takes over the name of another property"
            label = f"{new.kind} {new.name}"
            yield SchemaConflict(entity=label, reason=f"{reason}; rename it on '{names[1]}'")


def _fits(values: pa.Array, kind: pa.DataType) -> bool:
    cancellation.check()
    try:
        pc.cast(values, kind)
    except pa.ArrowInvalid:
        return False
    return True
