"""The schema of a graph, as the facade shows and changes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from omnigraph.core.revisions import Revision
from omnigraph.dataplane.progress import Progress
from omnigraph.exec.schema_change.changer import SchemaChanger, SchemaPlan, SchemaRequest
from omnigraph.graph.arguments import instance, key_of
from omnigraph.graph.context import GraphContext
from omnigraph.graph.pins import Pins
from omnigraph.graph.values import commit_of
from omnigraph.lang import compile_schema
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.query_checks import broken_queries, read_file
from omnigraph.results.schema_change import SchemaChange
from omnigraph.types import (
    MAIN,
    Actor,
    BranchName,
    CommitId,
    CommitMessage,
    EngineChoice,
)

_SCHEMA_SUFFIX = ".pg"


class Schema:
    """The schema of a graph; `graph.schema`."""

    __slots__ = ("_actor", "_authorizer", "_branch", "_changer", "_context", "_pins", "_repo")

    def __init__(
        self,
        context: GraphContext,
        pins: Pins,
        authorizer: Authorizer,
        actor: str | None = None,
        branch: BranchName = MAIN,
    ) -> None:
        """Show and change the schemas of an open graph, on behalf of an actor."""
        self._context = context
        self._repo = context.repo
        self._pins = pins
        self._authorizer = authorizer
        self._actor = actor
        self._branch = branch
        self._changer = SchemaChanger(context.repo)

    def _on(self, branch: str | None) -> BranchName:
        return self._branch if branch is None else BranchName(branch)

    def show(self, branch: str | None = None, *, at: Revision | None = None) -> str:
        """The schema in force, as it was written.

        Example:
            ```python
            assert "node Person" in graph.schema.show()
            ```

        Args:
            branch: The branch.
            at: An older state of it: a commit, a time or `main~3`; see `Graph.snapshot`.
        """
        return self._repo.schema(self._pins.pinned(branch, at)).text

    def drift(self) -> tuple[str, ...]:
        """The mistakes in `_schema.pg`, `_schema.ir.json` and `__schema_state.json`.

        They are copies for people and tools, of the schema that is in force on `main`. Nothing
        reads them; the next change of the schema writes them again. An empty answer means that
        they are as they should be.

        Example:
            ```python
            assert graph.schema.drift() == ()
            ```
        """
        self._authorizer.ask(Permission.READ, MAIN)
        return self._changer.drift()

    def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        branch: str | None = None,
        queries: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        allow_data_loss: bool = False,
    ) -> SchemaChange:
        """Return what `apply` would do, and what stands in its way. Writes nothing.

        Example:
            ```python
            wanted = graph.schema.show() + "node City { name: String @key }"
            change = graph.schema.plan(wanted)
            assert change.can_be_applied
            assert [step["kind"] for step in change.steps] == ["add_type"]
            ```

        Args:
            schema: The wanted schema, as text or as the path of a `.pg` file.
            branch: The branch that is to have it.
            queries: Files of queries, or folders of `.gq` files, to be checked against it.
            allow_data_loss: As for `apply`.
        """
        known = self._on(branch)
        self._authorizer.ask(Permission.READ, known)
        text, origin = schema_text(schema)
        request = SchemaRequest(
            catalog=compile_schema(text, origin),
            text=text,
            branch=known,
            allow_data_loss=allow_data_loss,
        )
        found = self._changer.plan(request)
        catalog = found.migration.result if found.migration.supported else request.catalog
        return _planned(found, broken_queries(queries, catalog))

    def apply(  # noqa: PLR0913
        self,
        schema: str | os.PathLike[str],
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        dry_run: bool = False,
        if_commit: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> SchemaChange:
        """Change the schema of a branch; one commit, or nothing.

        Renames, new nullable properties, dropped properties and types, looser rules take no longer
        for a large graph. A default for stored rows and a wider type are written into new files.
        New and narrower rules are checked on the stored rows first. What is dropped stays readable
        at earlier commits. Other branches keep their schema.

        Example:
            ```python
            graph.schema.apply(graph.schema.show() + "node City { name: String @key }")
            graph.mutate('query q() { insert City { name: "Oslo" } }')
            ```

        Args:
            schema: The wanted schema, as text or as the path of a `.pg` file.
            branch: The branch that is to have it.
            allow_data_loss: Take what is dropped out of the files of the branch: they are written
                anew, and a clean-up can free the old ones. Otherwise dropped values stay in them.
            dry_run: Only return what would be done; see `plan`.
            if_commit: Only if this commit is still the newest of the branch, apart from indexes and
                compactions.
            actor: Who does it; by default the actor of the graph.
            message: A note for the history.
            idempotency_key: Names the operation, so that repeating it does it once.
            engine: What writes the values that stored rows get: `inprocess`, `spark`, or `auto`,
                which chooses by the size of their tables.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while values are written.

        Raises:
            InvalidInput: The schema has mistakes, or a step cannot be applied; it lists all.
            ConstraintViolated: Stored rows break a rule that the schema adds; it lists them.
            Conflict: Others change the same tables without pause.
            PreconditionFailed: The branch has changed since `if_commit`.
        """
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        execution = Execution.checked(engine, spark, progress)
        if dry_run:
            return self.plan(schema, branch=branch, allow_data_loss=allow_data_loss)
        by = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.SCHEMA_APPLY, self._on(branch), actor=by)
        text, origin = schema_text(schema)
        request = SchemaRequest(
            catalog=compile_schema(text, origin),
            text=text,
            branch=self._on(branch),
            actor=by,
            message=None if message is None else CommitMessage(message),
            key=key_of(
                idempotency_key, "schema_apply", str(self._on(branch)), text, allow_data_loss
            ),
            head=None if if_commit is None else CommitId(if_commit),
            allow_data_loss=allow_data_loss,
        )
        bulk = Bulk.of(self._context)
        running = partial(bulk.running, "schema_apply", execution)
        done = self._changer.apply(request, running)
        published = done.published
        return SchemaChange(
            supported=True,
            steps=done.steps,
            notes=() if done.migration is None else done.migration.notes,
            rows={},
            broken_queries={},
            commit=None if published is None else commit_of(published.commit),
            replayed=published is not None and published.replayed,
            migration=done.migration,
        )


def schema_text(schema: str | os.PathLike[str]) -> tuple[str, str]:
    """The text of a schema, and its name in diagnostics."""
    if not isinstance(schema, str):
        instance(schema, os.PathLike, "a schema is a text or the path of a file")
    if isinstance(schema, str) and not schema.endswith(_SCHEMA_SUFFIX):
        return schema, "<schema>"
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return schema, "<schema>"
    return read_file(Path(schema), "schema"), str(Path(schema))


def _planned(found: SchemaPlan, broken: Mapping[str, tuple[str, ...]]) -> SchemaChange:
    migration = found.migration
    return SchemaChange(
        supported=migration.supported,
        steps=tuple(step.to_json() for step in migration.steps),
        notes=(*migration.notes, *map(_drifted, found.drift)),
        rows=found.rows,
        violations=tuple(item.as_json() for item in found.violations),
        violation_count=found.violation_count,
        broken_queries=broken,
        migration=migration,
    )


def _drifted(text: str) -> str:
    return f"{text}; it is written again with the next change of the schema of main"
