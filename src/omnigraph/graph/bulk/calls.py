"""The calls of `Graph` for data of any size: load, export, copy, optimize, embed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraph.core.layout import table_key
from omnigraph.core.revisions import Revision
from omnigraph.core.schema.named_types import chosen_types
from omnigraph.graph.arguments import one_of, seconds, token, whole_number
from omnigraph.graph.context import GraphContext
from omnigraph.graph.pins import Pins
from omnigraph.lang.catalog.model import Catalog, EntityKind
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.writes import (
    CopyResult,
    EmbedResult,
    ExportResult,
    LoadResult,
    OptimizeResult,
)
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.runtime.environment import storage_options as storage_options_of
from omnigraph.store.root import Root
from omnigraph.types import (
    MAIN,
    Actor,
    BranchName,
    CommitMessage,
    EngineChoice,
    IdempotencyKey,
    LoadMode,
)

if TYPE_CHECKING:
    from omnigraph.dataplane.progress import Progress
    from omnigraph.dataplane.run.runner import Runner


class BulkCalls:
    """The part of `Graph` that works in bulk."""

    def __init__(self, parts: GraphContext, actor: str | None, branch: BranchName = MAIN) -> None:
        """Work on these parts, on behalf of an actor, on a branch where a call names no other."""
        self._parts = parts
        self._repo = parts.repo
        self._actor = None if actor is None else Actor(actor)
        self._branch = branch
        self._authorizer = Authorizer(parts.policy, self._actor)
        pins = Pins(parts, self._authorizer, branch)
        self._pins = pins
        self._pinned, self._plans = pins.pinned, pins.plans

    def _on(self, branch: str | None) -> BranchName:
        return self._branch if branch is None else BranchName(branch)

    def _running_merge(self, size: int) -> AbstractContextManager[Runner]:
        """The runner of a merge of about so many bytes."""
        from omnigraph.graph.bulk.bulk import Bulk  # noqa: PLC0415

        return Bulk.of(self._parts).running_merge(size)

    def _reached_by(self, options: Mapping[str, str] | None) -> Mapping[str, str]:
        """The options that reach object storage; addresses of files do not look at them."""
        if options is None:
            return storage_options_of("s3://", self._parts.variables)
        return dict(options)

    def _change(self, branch: BranchName, actor: str | None, types: Iterable[str]) -> None:
        self._authorizer.ask(Permission.CHANGE, branch, types=types, actor=actor)

    def load(  # noqa: PLR0913
        self,
        source: object,
        *,
        mode: LoadMode = "append",
        branch: str | None = None,
        create_from: str | None = None,
        replace: bool = False,
        cascade: bool = False,
        format: str | None = None,
        engine: EngineChoice = "auto",
        spark: object = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        progress: Callable[[Progress], None] | None = None,
        violations_max: int = 1000,
        violations_file: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> LoadResult:
        """Load data of any size: all of it in one commit, or nothing.

        Example:
            ```python
            done = graph.load({"Person": [{"name": "Cy", "age": 7}, {"name": "Di"}]})
            assert done.counts["node:Person"].inserted == 2
            ```

        Args:
            source: A file, folder, pattern or `s3://` address, several of them, `-` for standard
                input, or a mapping from types to files, Arrow tables and readers, data frames of
                pandas, polars or Spark, or lists of dictionaries.
            mode: `append` refuses entities that exist, `merge` changes the fields that the input
                names, `overwrite` replaces the types in the input as a whole.
            branch: Which branch to change.
            create_from: Make the branch from this one if it is missing, in the same commit.
            replace: With `merge`: replace whole entities, not only the fields that are named.
            cascade: With `overwrite`: drop edges of other types whose nodes are gone. Otherwise
                such an edge is a violation.
            format: `ndjson`, `csv`, `parquet` or `arrow`, where a file's suffix does not show it.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the input.
            spark: A Spark master or session; by default `OMNIGRAPH_SPARK_MASTER`, or this machine.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.
            message: What the commit is about, to be read in the history.
            progress: Is called with a `Progress` while it goes on.
            violations_max: How many violations an error lists; the others are counted.
            violations_file: Takes all violations, one JSON object per line.
            storage_options: How to reach sources on S3; by default the usual `AWS_*` variables.
            timeout: After how many seconds the load ends with an error, if it has not begun to
                commit by then; nothing is loaded in that case. A commit is never broken off.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The source or an option cannot be understood.
            NotFound: A file or branch is missing.
            ConstraintViolated: The data breaks rules; it lists them with their files and lines.
            Conflict: Another writer changed what an overwrite replaces.
        """
        from omnigraph.dataplane.load.request import LoadRequest  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        known = self._on(branch)
        who = self._actor if actor is None else Actor(actor)
        key = None if idempotency_key is None else IdempotencyKey(idempotency_key)
        parent = None if create_from is None else BranchName(create_from)
        self._authorizer.ask(Permission.CHANGE, known, actor=who, source=parent)
        execution = Execution.checked(engine, spark, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            base = self._repo.base_of(known, create_from=parent)
            request = LoadRequest(
                catalog=self._plans(base).catalog,
                mode=one_of(LoadMode, mode, "mode"),
                branch=known,
                create_from=parent,
                replace=bool(replace),
                cascade=bool(cascade),
                actor=who,
                idempotency_key=key,
                message=None if message is None else CommitMessage(message),
                violations_max=whole_number(violations_max, "violations_max", 1),
                violations_file=None if violations_file is None else os.fspath(violations_file),
                authorise=partial(self._change, known, who),
            )
            if base.branch != known:
                self._authorizer.ask(Permission.BRANCH_CREATE, known, actor=who, source=parent)
            reached = self._reached_by(storage_options)
            return Bulk.of(self._parts).load(source, request, execution, base, format, reached)

    def export(  # noqa: PLR0913
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        branch: str | None = None,
        at: Revision | None = None,
        types: Sequence[str] | None = None,
        parts: bool = False,
        compression: str | None = None,
        overwrite: bool = False,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        storage_options: Mapping[str, str] | None = None,
        hold: bool = False,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> ExportResult:
        """Write the entities of one commit to files that `load` reads back.

        Example:
            ```python
            done = graph.export("people.jsonl", types=["Person"])
            assert done.rows == {"node:Person": 2}
            ```

        Args:
            target: A file; a folder, or a path that ends with a slash, for parallel parts and a
                small `_export.json`; `-` for standard output; or a binary file object.
            format: `ndjson`, `arrow` or `parquet`; by default what the suffix says, or NDJSON.
            branch: Its newest state.
            at: An older state instead: a commit, a tag, a time or `main~3`; see `snapshot`.
            types: Only these types.
            parts: Take the target for a folder, whatever its name.
            compression: `none`, `gzip` or `zstd`; by default what the suffix says.
            overwrite: Replace what is there.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the graph.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            storage_options: How to reach a target on S3.
            hold: With a handle for reading, too, keep the state from clean-ups meanwhile, if
                storage can be written to. A handle for writing always does.
            timeout: After how many seconds the export ends with an error; None for never. What it
                wrote is removed, unless the target is a stream.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The target is there already, or an option cannot be understood.
            NotFound: There is no such branch or commit.
            LimitExceeded: Its time is up.
            Cancelled: It was cancelled.
        """
        from omnigraph.dataplane.export.model import ExportRequest  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        execution = Execution.checked(engine, spark, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            pinned = self._pinned(branch, at, action=Permission.EXPORT)
            catalog = self._plans(pinned).catalog
            self._authorizer.ask(Permission.EXPORT, pinned.branch, types=_keys(catalog, types))
            request = ExportRequest(
                snapshot=pinned,
                catalog=catalog,
                target=os.fspath(target) if isinstance(target, str | os.PathLike) else target,
                format=format,
                types=None if types is None else tuple(types),
                parts=bool(parts),
                compression=compression,
                overwrite=bool(overwrite),
                storage_options=self._reached_by(storage_options),
            )
            return Bulk.of(self._parts).export(request, execution, hold=bool(hold))

    def copy_to(  # noqa: PLR0913
        self,
        uri: str | os.PathLike[str],
        *,
        branch: str | None = None,
        at: Revision | None = None,
        verify: bool = True,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        storage_options: Mapping[str, str] | None = None,
        hold: bool = False,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> CopyResult:
        """Copy the graph to another place, while others go on writing to it.

        The copy is of one moment: every branch with its whole history, or what was asked for. It
        becomes a graph at once, at the very end. A call that was interrupted can be repeated, and
        goes on with what is there. To restore a backup, copy it back.

        Example:
            ```python
            graph.copy_to("backup.omni")
            with og.open("backup.omni", "r") as backup:
                assert backup.snapshot().commit == graph.snapshot().commit
            ```

        Args:
            uri: The place of the copy, local or on S3; nothing may be there but an unfinished copy.
            branch: Only this branch, and those that it was made from.
            at: Only one state: a commit, a tag, a time or `main~3`. The copy has its past in the
                log, but no older states to go back to.
            verify: Read every file of the copy again, and compare it.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the files.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            storage_options: How to reach a target on S3; by default the usual `AWS_*` variables.
            hold: With a handle for reading, too, keep what is copied from clean-ups meanwhile, if
                storage can be written to. A handle for writing always does.
            timeout: After how many seconds it ends with an error; None for never.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            Conflict: There is a graph, or an unfinished copy of another one.
            InvalidInput: There are other files.
            NotFound: There is no such branch or commit.
        """
        from omnigraph.dataplane.copy.copier import CopyRequest  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        execution = Execution.checked(engine, spark, progress)
        self._authorizer.ask(Permission.EXPORT, branch)
        place = os.fspath(uri)
        options = self._reached_by(storage_options) if "://" in place else storage_options
        named = None if branch is None and self._branch == MAIN else self._on(branch)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            request = CopyRequest(
                target=Root.parse(place, options),
                branch=named,
                at=None if at is None else self._pinned(branch, at),
                verify=bool(verify),
                hold=bool(hold),
            )
            if named is not None:
                self._repo.snapshot(named)
            return Bulk.of(self._parts).copy(request, execution)

    def to_spark(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        spark: object = None,
    ) -> Any:
        """One type as a Spark DataFrame, pinned to a commit; Spark reads the tables itself.

        The same as `spark.read.format("omnigraph")` with `path` and `type` as options.

        Args:
            type_name: The type, `Person`; `node:Person` where an edge type has the same name.
            branch: Its newest state.
            at: An older state instead: a commit, a tag, a time or `main~3`; see `snapshot`.
            columns: Only these columns. Of all, those that a plan uses are read.
            where: Only the rows for which this condition on the columns, in SQL, is true. The scan
                applies it; what Spark filters later, it filters after reading.
            spark: A Spark master or session.
        """
        from omnigraph.graph.bulk.bulk import Bulk  # noqa: PLC0415

        pinned = self._pinned(branch, at, action=Permission.EXPORT)
        keys = _keys(self._plans(pinned).catalog, [type_name])
        self._authorizer.ask(Permission.EXPORT, pinned.branch, types=keys)
        wanted = None if columns is None else tuple(columns)
        return Bulk.of(self._parts).to_spark(type_name, pinned, wanted, where, spark)

    def vertices(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
        columns: Sequence[str] | None = None,
        spark: object = None,
    ) -> Any:
        """The nodes of a type as a Spark DataFrame with a number per node, pinned to a commit.

        The column `_id` is a long that is unique within the type, for joins with `graph.edges`. It
        holds for one commit. Spark gets the size of the frame, so small ones are broadcast.

        Args:
            type_name: The node type.
            branch: Its newest state.
            at: An older state instead: a commit, a tag, a time or `main~3`; see `snapshot`.
            columns: Only these columns; by default `id` and all properties but blobs.
            spark: A Spark master or session.
        """
        return self._graph_frame(("node", type_name), branch, at, columns, spark)

    def edges(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
        columns: Sequence[str] | None = None,
        spark: object = None,
    ) -> Any:
        """The edges of a type as a Spark DataFrame whose ends are numbers, pinned to a commit.

        `_id` is the number of the edge; `_src` and `_dst` are those of the nodes in
        `graph.vertices`. They are looked up once per state and kept with the session.

        Args:
            type_name: The edge type.
            branch: Its newest state.
            at: An older state instead: a commit, a tag, a time or `main~3`; see `snapshot`.
            columns: Only these columns, `[]` for none; by default `id`, `src`, `dst` and all
                properties but blobs.
            spark: A Spark master or session.
        """
        return self._graph_frame(("edge", type_name), branch, at, columns, spark)

    def _graph_frame(
        self,
        key: tuple[EntityKind, str],
        branch: str | None,
        at: Revision | None,
        columns: Sequence[str] | None,
        spark: object,
    ) -> Any:
        from omnigraph.graph.bulk.bulk import Bulk  # noqa: PLC0415

        pinned = self._pinned(branch, at, action=Permission.EXPORT)
        self._authorizer.ask(Permission.EXPORT, pinned.branch, types=[":".join(key)])
        wanted = None if columns is None else tuple(columns)
        catalog = self._plans(pinned).catalog
        return Bulk.of(self._parts).graph_frame(key, pinned, catalog, wanted, spark)

    def stream_sink(
        self,
        type_name: str,
        *,
        stream: str,
        mode: LoadMode = "merge",
        branch: str | None = None,
        replace: bool = False,
        actor: str | None = None,
    ) -> Callable[[Any, int], None]:
        """A function for `foreachBatch` that takes each batch of a stream into the graph once.

        Every batch is one commit. A batch is known by the name of the stream, its number and a
        fingerprint of its rows, in whatever order they come. What Spark repeats after a failure, or
        after its checkpoint was lost, changes nothing; other rows under a number that was there
        before are loaded like any batch. Over Spark Connect the function travels to the server,
        which needs OmniGraph installed and the graph within its reach.

            frame.writeStream.foreachBatch(graph.stream_sink("Person", stream="people")).start()

        Args:
            type_name: The type of the rows.
            stream: Names the stream; give each stream a name of its own.
            mode: `merge`, or `append`, which refuses what exists.
            branch: Which branch to change.
            replace: With `merge`: replace whole entities, not only the fields that are named.
            actor: Who does it; the actor of the handle if not given.
        """
        from omnigraph.graph.bulk.stream_sink import SinkTerms, StreamSink  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.CHANGE, self._on(branch), actor=who)
        terms = SinkTerms(
            type_name=type_name,
            stream=stream,
            mode=one_of(LoadMode, mode, "mode"),
            branch=self._on(branch),
            replace=bool(replace),
            actor=who,
        )
        return StreamSink(self._repo, self._parts.embeddings, terms)

    def optimize(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> OptimizeResult:
        """Compact tables and bring indexes up to date; one commit that changes no answer, or none.

        Example:
            ```python
            assert graph.optimize().commit is not None
            assert graph.optimize().commit is None
            ```

        Args:
            branch: Whose tables.
            actor: Who does it; the actor of the handle if not given.
            message: What the commit is about, to be read in the history.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the tables.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            timeout: After how many seconds it ends with an error, if it has not begun to commit;
                None for never. It is looked at between tasks.
            cancel: The same, when another thread calls its `cancel()`.
        """
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        known = self._on(branch)
        self._authorizer.ask(Permission.MAINTAIN, known, actor=who)
        about = None if message is None else CommitMessage(message)
        execution = Execution.checked(engine, spark, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            return Bulk.of(self._parts).optimize(known, who, execution, about)

    def embed(  # noqa: PLR0913
        self,
        *,
        missing: bool = True,
        types: Sequence[str] | None = None,
        branch: str | None = None,
        batch: int | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: EngineChoice = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> EmbedResult:
        """Compute the vectors of `@embed` properties that are null though their text is there.

        Every batch is one commit. A call that is interrupted goes on where it was when it is
        repeated: what is committed is not missing any more.

        Example:
            ```python
            done = graph.embed()
            assert done.vectors == {}
            ```

        Args:
            missing: Only vectors that are null; False computes all of them anew, for instance
                after a change of the model.
            types: Only of these types.
            branch: Which branch to change.
            batch: How many entities one commit changes; by default 4,096, on Spark so many per
                task.
            actor: Who does it; the actor of the handle if not given.
            message: What its commits are about, to be read in the history.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the tables.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            timeout: After how many seconds it ends with an error; what was committed stays.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: No embedding provider is configured, or there is no such type.
            Unavailable: The provider does not answer; what was committed stays.
            Forbidden: The graph is open for reading only.
        """
        from omnigraph.dataplane.load.fill import FillRequest  # noqa: PLC0415
        from omnigraph.dataplane.load.request import Fill  # noqa: PLC0415
        from omnigraph.graph.bulk.bulk import Bulk, Execution  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.CHANGE, self._on(branch), actor=who)
        request = FillRequest(
            branch=self._on(branch),
            fill=Fill.MISSING if missing else Fill.ALL,
            types=types,
            batch=None if batch is None else whole_number(batch, "batch", 1),
            actor=who,
            message=None if message is None else CommitMessage(message),
        )
        execution = Execution.checked(engine, spark, progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            return Bulk.of(self._parts).embed(request, execution)


def _keys(catalog: Catalog, types: Sequence[str] | None) -> list[str]:
    return [table_key(each.kind, each.name) for each in chosen_types(catalog, types)]
