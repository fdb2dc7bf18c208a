"""Changing the schema of a branch: one commit with the new schema and what it means for the tables.

The planner says what has to be done. Most of it is in the catalog alone. A table is altered where
its columns change, a new type gets an empty one, a dropped type is left out from here on and stays
readable at earlier commits. Whatever happens meanwhile, a reader sees the old schema with the old
tables or the new one with the new.

A write that was made for the old schema is refused and made anew. Of two changes of the schema at
once, the second is refused: its text does not have what the first one added, and would drop it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import CallKey, keyed
from omnigraph.core.commits.requirements import schema_changed
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import table_key
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.retry import with_retries
from omnigraph.core.schema.alignment import altered_columns, is_altered, kept_types
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.dataplane.alter.values import Running, values_of
from omnigraph.errors import Code, Conflict, InvalidInput, JsonValue
from omnigraph.exec.preconditions import required_head
from omnigraph.exec.schema_change.alterations import blob_in_the_way, rows_with_blobs
from omnigraph.exec.schema_change.records import schema_records
from omnigraph.exec.schema_change.validation import judge_stored, stored_images
from omnigraph.lang.catalog.migrate import MigrationPlan, plan
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.catalog.steps import DropMode, DropProperty, Tier
from omnigraph.lang.values import Base
from omnigraph.rules.violation import Violation, Violations
from omnigraph.runtime import telemetry
from omnigraph.store.tables import Table
from omnigraph.store.writing.alter import Alteration
from omnigraph.types import MAIN, BranchName, CommitId

_STEPS = "steps"  # the detail of a commit that has the steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRequest:
    """A new schema, the branch that is to have it, and the actor."""

    catalog: Catalog
    text: str
    branch: BranchName = MAIN
    actor: str | None = None
    message: str | None = None
    key: CallKey | None = None
    head: CommitId | None = None
    allow_data_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """The steps to a schema, and what stands in their way.

    Attributes:
        migration: The steps.
        rows: By table key, how many rows the types have that steps read or write.
        violations: The rows that break a rule which the schema adds, up to a bound.
        violation_count: The number of all of them.
        drift: What the copies of the schema for people say that is not so.
    """

    migration: MigrationPlan
    rows: dict[str, int]
    drift: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    violation_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplied:
    """The result of a change of the schema.

    Attributes:
        steps: Its steps, as plain values.
        published: Its commit; None when nothing changes.
        migration: The plan of the steps; None if an earlier call with the same key applied it.
    """

    steps: tuple[Mapping[str, JsonValue], ...]
    published: Published | None
    migration: MigrationPlan | None = None

    @classmethod
    def of(cls, migration: MigrationPlan, published: Published | None) -> SchemaApplied:
        """The result of a plan that was carried out."""
        if published is not None and published.replayed:
            return cls.replayed(published)
        steps = tuple(step.to_json() for step in migration.steps)
        return cls(steps=steps, published=published, migration=migration)

    @classmethod
    def replayed(cls, published: Published) -> SchemaApplied:
        """The result of an earlier call, read from its commit."""
        steps = published.commit.details[_STEPS]
        assert isinstance(steps, Sequence), "every change of the schema has them"
        found = tuple(step for step in steps if isinstance(step, Mapping))
        return cls(steps=found, published=published)


class SchemaChanger:
    """Changes the schema of the branches of one graph."""

    def __init__(self, repo: Repository) -> None:
        """Work on this graph."""
        self._repo = repo

    def plan(self, request: SchemaRequest) -> SchemaPlan:
        """Plan the way to a schema and judge the stored rows by it. Writes nothing."""
        base = self._repo.snapshot(request.branch)
        migration = self._migration(base, request)
        found = Violations()
        if migration.supported:
            found = self._judge(base, migration)
        return SchemaPlan(
            migration=migration,
            rows=self._rows(base, migration),
            violations=found.items,
            violation_count=found.total,
            drift=self.drift() if request.branch == MAIN else (),
        )

    def drift(self) -> tuple[str, ...]:
        """Each copy of the schema for people that does not say what is in force, and why."""
        with storage_errors():
            return self._repo.schemas.drift(self._repo.schema(self._repo.snapshot(MAIN)))

    def apply(self, request: SchemaRequest, running: Running | None = None) -> SchemaApplied:
        """Change the schema; one commit, or none if it is in force already.

        Args:
            request: The wanted schema.
            running: Gives what writes the values that stored rows get; by default this thread.

        Raises:
            InvalidInput: A step cannot be applied; it lists all of them.
            ConstraintViolated: Stored rows break a rule that the schema adds; it lists them.
            Conflict: Others change the same tables without pause, another change of the schema has
                come first, or `head` is not the head.
        """
        self._repo.require_writable()
        known: list[str] = []  # the schema in force at each attempt

        def attempt(_losses: int, _is_stale: bool) -> SchemaApplied:
            base = self._repo.snapshot(request.branch)
            known.append(base.schema_digest)
            return self._attempt(base, request, running, planned_for=known[0])

        try:
            return with_retries(
                attempt,
                root=self._repo.root.uri,
                branch=request.branch,
                policy=self._repo.retry.for_long_work,
                name="schema_apply",
            )
        except Conflict as error:
            if error.code is not Code.SCHEMA_CHANGED:
                raise
            return self._in_force(request, error)

    def _in_force(self, request: SchemaRequest, error: Conflict) -> SchemaApplied:
        """The result where the change that came first was the same one."""
        base = self._repo.snapshot(request.branch)
        migration = self._migration(base, request)
        if migration.supported:
            wanted = AcceptedSchema(catalog=migration.result, text=request.text)
            if wanted.digest == base.schema_digest:
                return SchemaApplied.of(migration, None)
        text = f"{error}: put that change into your text, or drop it by applying yours again"
        raise Conflict(error.code, text, **error.details) from error

    def _attempt(
        self,
        base: GraphVersion,
        request: SchemaRequest,
        running: Running | None,
        planned_for: str,
    ) -> SchemaApplied:
        earlier = self._earlier(request, base)
        if earlier is not None:
            return SchemaApplied.replayed(earlier)
        migration = self._migration(base, request)
        migration.require_supported()
        accepted = AcceptedSchema(catalog=migration.result, text=request.text)
        with telemetry.span("schema_apply", branch=request.branch), storage_errors():
            if accepted.digest == base.schema_digest:
                return SchemaApplied.of(migration, None)
            if base.schema_digest != planned_for:
                raise schema_changed(request.branch)
            self._judge(base, migration).raise_if_any()
            prepared = self._prepared(base, migration, request, running)
            digest = self._repo.schemas.keep(accepted)
        published = self._repo.commit(replace(prepared, schema_digest=digest))
        if published.replayed:
            assert request.key is not None, "only a call with a key was made before"
            request.key.check(published.commit)
        elif request.branch == MAIN:
            self._repo.schemas.keep_copies(digest)
        return SchemaApplied.of(migration, published)

    def _earlier(self, request: SchemaRequest, base: GraphVersion) -> Published | None:
        """The commit of an earlier call with the same key."""
        if request.key is None:
            return None
        with storage_errors():
            found = request.key.done(self._repo.manifest.commits(request.branch))
        if found is None:
            return None
        return Published(commit=found, manifest_version=base.manifest_version, replayed=True)

    def _migration(self, base: GraphVersion, request: SchemaRequest) -> MigrationPlan:
        accepted = self._repo.schema(base).catalog
        found = plan(accepted, request.catalog, allow_data_loss=request.allow_data_loss)
        for old, new in kept_types(accepted, found.result):
            if name := blob_in_the_way(old, new):
                text = (
                    f"the blob property {new.name}.{name} takes over the name of another "
                    "property; apply it in two steps, with a temporary name in the first"
                )
                raise InvalidInput(Code.MIGRATION_UNSUPPORTED, text)
        return found

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self, base: GraphVersion, migration: MigrationPlan) -> Violations:
        out = Violations()
        judged = _ids(migration, Tier.VALIDATED)
        for old, new in kept_types(self._repo.schema(base).catalog, migration.result):
            if new.id in judged:
                table = self._repo.table(base.pin(_key(old)))
                judge_stored(old, new, partial(stored_images, old, new, table), out)
        return out

    def _rows(self, base: GraphVersion, migration: MigrationPlan) -> dict[str, int]:
        touched = {step.entity.id for step in migration.steps}
        catalog = self._repo.schema(base).catalog
        return {
            _key(entity): base.pin(_key(entity)).row_count
            for entity in (*catalog.nodes, *catalog.edges)
            if entity.id in touched
        }

    # -- what the commit consists of ---------------------------------------------------------------

    def _prepared(
        self,
        base: GraphVersion,
        migration: MigrationPlan,
        request: SchemaRequest,
        running: Running | None,
    ) -> Prepared:
        old = self._repo.schema(base).catalog
        with self._repo.preparing(base):
            tables = tuple(self._altered(base, old, migration, running))
        written = {item.table_key for item in tables}
        judged = _ids(migration, Tier.VALIDATED)
        keys = [
            _key(before) for before, _ in kept_types(old, migration.result) if before.id in judged
        ]
        return Prepared(
            base=base,
            commit=keyed(
                replace(
                    self._repo.new_commit(base, WriterKind.SCHEMA_APPLY),
                    actor=request.actor,
                    message=request.message,
                    details={_STEPS: [step.to_json() for step in migration.steps]},
                ),
                request.key,
            ),
            tables=tables,
            head=required_head(self._repo, base, request.head),
            judged={key: base.pin(key).version for key in keys if key not in written},
            records=tuple(schema_records(self._repo, base, old, migration.result)),
        )

    def _altered(
        self, base: GraphVersion, old: Catalog, migration: MigrationPlan, running: Running | None
    ) -> Iterator[TableWrite]:
        emptied = {
            step.entity.id
            for step in migration.steps
            if isinstance(step, DropProperty) and step.mode is DropMode.HARD
        }
        alterer = self._repo.tables.alterer
        found: dict[str, Alteration] = {}
        for before, after in kept_types(old, migration.result):
            if not is_altered(before, after):
                continue
            key, rewrites = _key(before), after.id in emptied
            table = self._repo.writable_table(base, key)
            if rewrites and _blobs(after):
                yield self._written_anew(table, before, after)
            else:
                columns = altered_columns(before, after)
                found[key] = alterer.plan(table, columns, rewrites=rewrites)
        receipts = {} if running is None else values_of(self._repo, found, running)
        for key, alteration in found.items():
            staged = alterer.stage(alteration, receipts.get(key), uuid=self._repo.ids.new())
            yield TableWrite(table_key=key, staged=(staged,))

    def _written_anew(self, table: Table, before: EntityType, after: EntityType) -> TableWrite:
        """Blobs lie beside the files of their rows: such rows are written as new ones."""
        schema = table_schema(after)
        batches = rows_with_blobs(table, altered_columns(before, after), _blobs(after))
        staged = self._repo.tables.stage_overwrite(
            table,
            pa.RecordBatchReader.from_batches(schema, batches),
            uuid=self._repo.ids.new(),
            schema=schema,
        )
        return TableWrite(table_key=_key(before), staged=(staged,))


def _blobs(entity: EntityType) -> list[str]:
    return [item.name for item in entity.properties if item.type.base is Base.BLOB]


def _key(entity: EntityType) -> str:
    return table_key(entity.kind, entity.name)


def _ids(migration: MigrationPlan, tier: Tier) -> set[str | None]:
    """The types that steps of a tier are about."""
    return {step.entity.id for step in migration.steps if step.tier is tier}
