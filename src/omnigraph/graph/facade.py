"""The graph as its users see it: pin one base, delegate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

from omnigraph.core.indices import ensure_indices
from omnigraph.core.snapshot import Snapshot as Pinned
from omnigraph.dataplane.progress import Progress
from omnigraph.exec.blobs import read_cell
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.access import Access
from omnigraph.graph.arguments import seconds, token, whole_number
from omnigraph.graph.branches import Branches
from omnigraph.graph.commits import Commits
from omnigraph.graph.parts import Parts
from omnigraph.graph.pins import Pins
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.values import (
    EmbedResult,
    ExportResult,
    IndexResult,
    LoadResult,
    MutationResult,
    OptimizeResult,
    commit_of,
    mutation_of,
)
from omnigraph.lang.query.params import bind
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import MAIN, Actor, BranchName, CommitId, IdempotencyKey


class Graph:
    """An open graph. Safe to share between threads; a context manager that closes itself.

    Made by `omnigraph.init` and `omnigraph.open`.

    Example:
        ```python
        with og.open("people.omni") as graph:
            graph.mutate('query add() { insert Person { name: "Di" } }')
            for row in graph.query("query all() { match { $p: Person } return { $p.name } }"):
                print(row["p.name"])
        ```

    Attributes:
        branches: Make, list and delete branches.
        commits: The history.
    """

    def __init__(self, parts: Parts, *, actor: str | None = None) -> None:
        """Put the faces on an engine; use `omnigraph.open` instead."""
        self._parts = parts
        self._engine = parts.engine
        self._actor = None if actor is None else Actor(actor)
        pins = Pins(parts.engine)
        self._pinned, self._language = pins.pinned, pins.language
        self._last: tuple[Pinned, Snapshot] | None = None
        self.branches = Branches(parts.engine)
        self.commits = Commits(parts.engine)

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    def __enter__(self) -> Self:
        self._engine.require_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._engine.root.uri

    @property
    def mode(self) -> str:
        """`rw`, or `r` for reading only."""
        return self._engine.mode.value

    # -- reading -----------------------------------------------------------------------------------

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        at: str | None = None,
        access: str = Access.AUTO,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> Rows:
        """Run a reading query against the newest state of a branch, or an older one.

        Example:
            ```python
            rows = graph.query(
                "query q($a: I32) { match { $p: Person  $p.age > $a } return { $p.name as name } }",
                {"a": 35},
            )
            assert rows.to_pylist() == [{"name": "Ada"}]
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.
            branch: Which branch to read.
            at: The id of a commit to read instead.
            access: `auto`, `dense` or `direct`: how to reach the data. The answer is the same.
            timeout: After how many seconds the query ends with an error; None for never.
            cancel: Ends the query when another thread calls its `cancel()`. With this or a
                timeout the whole result is read before the call returns.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; it says where.
            NotFound: There is no such branch or commit.
            LimitExceeded: The query needs more memory than it may use, or its time is up.
            Cancelled: It was cancelled.
        """
        pinned = self.snapshot(branch, at=at)
        return pinned.query(text, params, name=name, access=access, timeout=timeout, cancel=cancel)

    def explain(
        self, text: str, *, name: str | None = None, branch: str = MAIN, at: str | None = None
    ) -> str:
        """The plan of a query and how it would reach the data, as text.

        Example:
            ```python
            print(graph.explain("query all() { match { $p: Person } return { $p.name } }"))
            ```
        """
        return self.snapshot(branch, at=at).explain(text, name=name)

    def profile(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        at: str | None = None,
        access: str = Access.AUTO,
    ) -> Profile:
        """Run a query and tell what each operator did: rows, time, and the path taken.

        Example:
            ```python
            profile = graph.profile("query q() { match { $p: Person } return { count($p) as n } }")
            assert profile.rows[0]["n"] == 2
            print(profile)
            ```
        """
        return self.snapshot(branch, at=at).profile(text, params, name=name, access=access)

    def snapshot(
        self, branch: str = MAIN, *, at: str | None = None, version: int | None = None
    ) -> Snapshot:
        """Pin one moment, to read several things of the same state.

        Example:
            ```python
            before = graph.snapshot()
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            assert before.counts["node:Person"] == 2
            assert graph.snapshot().counts["node:Person"] == 3
            ```

        Args:
            branch: The newest state of this branch.
            at: The state that this commit made, instead.
            version: The state of the branch at this version of its manifest, instead.
        """
        pinned = self._pinned(branch, at, version)
        last = self._last
        if last is not None and last[0] is pinned:
            return last[1]
        snapshot = Snapshot(self._parts, pinned, self._language(pinned))
        self._last = (pinned, snapshot)
        return snapshot

    def read_blob(
        self,
        type_name: str,
        id: str,
        property_name: str,
        *,
        offset: int = 0,
        length: int | None = None,
        branch: str = MAIN,
        at: str | None = None,
    ) -> bytes | None:
        """Bytes of one blob; None when it is null. Reads no more than is asked for.

        Example:
            ```python
            graph.mutate('query q() { insert File { path: "a", content: "base64:aGVsbG8=" } }')
            assert graph.read_blob("File", "a", "content", offset=1, length=3) == b"ell"
            ```

        Args:
            type_name: The type of the node or edge.
            id: Its id.
            property_name: Which blob of it.
            offset: The first byte.
            length: How many bytes; a range that reaches beyond the end is cut there.
            branch: Which branch to read.
            at: The id of a commit to read instead.

        Raises:
            NotFound: There is no such entity.
            InvalidInput: The type has no such blob.
        """
        pinned = self._pinned(branch, at)
        catalog = self._language(pinned).catalog
        cell = read_cell(
            self._engine,
            pinned,
            catalog,
            type_name,
            id,
            property_name,
            offset=offset,
            length=length,
        )
        return None if cell is None else cell.data

    # -- changing ----------------------------------------------------------------------------------

    def mutate(  # noqa: PLR0913
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> MutationResult:
        """Run a changing query: all of it is one commit, or nothing happens.

        Example:
            ```python
            result = graph.mutate(
                "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
                {"n": "Bo", "a": 30},
            )
            assert result.affected_nodes == 1 and result.commit is not None
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.
            branch: Which branch to change.
            actor: Who does it; the actor of the handle if not given.
            if_commit: Only if this commit is still the newest of the branch.
            idempotency_key: Names the operation, so that repeating it does it once.
            timeout: After how many seconds the query ends with an error, if it has not begun to
                commit by then; nothing has changed in that case. A commit is never broken off.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; it says where.
            ConstraintViolated: The result would break rules of the schema; it lists all of them.
            Conflict: Somebody else changed what the query updates or deletes. Run it again.
            PreconditionFailed: `if_commit` is not the newest commit.
            Forbidden: The graph is open for reading only.
            LimitExceeded: It would change more than one query may, or its time is up.
            Cancelled: It was cancelled.
        """
        who = self._actor if actor is None else Actor(actor)
        known = BranchName(branch)
        head = None if if_commit is None else CommitId(if_commit)
        key = None if idempotency_key is None else IdempotencyKey(idempotency_key)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            pinned = self._engine.snapshot(known)
            language = self._language(pinned)
            plan = language.change(text, name)
            done = self._parts.mutator.mutate(
                plan,
                bind(plan.params, params or {}),
                language.catalog,
                branch=known,
                actor=who,
                if_commit=head,
                idempotency_key=key,
            )
        return mutation_of(done)

    def ensure_indices(self, *, branch: str = MAIN, actor: str | None = None) -> IndexResult:
        """Build every index that the schema asks for and that is missing; one commit, or none.

        Example:
            ```python
            assert graph.ensure_indices().commit is not None
            assert graph.ensure_indices().commit is None
            ```
        """
        who = self._actor if actor is None else Actor(actor)
        report = ensure_indices(self._engine, BranchName(branch), actor=who)
        commit = None if report.published is None else commit_of(report.published.commit)
        pending = tuple((item.table_key, item.column, item.reason) for item in report.pending)
        return IndexResult(commit=commit, built=report.built, pending=pending)

    # -- in bulk -----------------------------------------------------------------------------------

    def load(  # noqa: PLR0913
        self,
        source: object,
        *,
        mode: str = "append",
        branch: str = MAIN,
        create_from: str | None = None,
        replace: bool = False,
        cascade: bool = False,
        format: str | None = None,
        engine: str = "auto",
        spark: object = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
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
            format: `ndjson`, `csv`, `parquet` or `arrow`, where a file's suffix does not tell.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the input.
            spark: A Spark master or session; by default `OMNIGRAPH_SPARK_MASTER`, or this machine.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.
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
            Conflict: Somebody else changed what an overwrite replaces. Run it again.
            Forbidden: The graph is open for reading only.
            LimitExceeded: Its time is up.
            Cancelled: It was cancelled.
        """
        # Bulk work brings readers of many formats along, for which nobody else should wait.
        from omnigraph.graph.bulk import Bulk, LoadTerms, Terms  # noqa: PLC0415

        known = BranchName(branch)
        parent = None if create_from is None else BranchName(create_from)
        asked = LoadTerms(
            mode=mode,
            branch=known,
            create_from=parent,
            replace=bool(replace),
            cascade=bool(cascade),
            actor=self._actor if actor is None else Actor(actor),
            idempotency_key=None if idempotency_key is None else IdempotencyKey(idempotency_key),
            format=format,
            storage_options=storage_options,
            violations_max=whole_number(violations_max, "violations_max", 1),
            violations_file=violations_file,
        )
        terms = Terms(engine=engine, spark=spark, progress=progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            missing = parent is not None and not self._engine.has_branch(known)
            pinned = self._engine.snapshot(parent if missing and parent is not None else known)
            catalog = self._language(pinned).catalog
            return Bulk(self._engine, self._parts.embeddings).load(source, catalog, asked, terms)

    def export(  # noqa: PLR0913
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        branch: str = MAIN,
        at: str | None = None,
        types: Sequence[str] | None = None,
        parts: bool = False,
        compression: str | None = None,
        overwrite: bool = False,
        engine: str = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
        storage_options: Mapping[str, str] | None = None,
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
            at: The state that this commit made, instead.
            types: Only these types.
            parts: Take the target for a folder, whatever its name.
            compression: `none`, `gzip` or `zstd`; by default what the suffix says.
            overwrite: Replace what is there.
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the graph.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.
            storage_options: How to reach a target on S3.
            timeout: After how many seconds the export ends with an error; None for never. What it
                wrote is removed, unless the target is a stream.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The target is there already, or an option cannot be understood.
            NotFound: There is no such branch or commit.
            LimitExceeded: Its time is up.
            Cancelled: It was cancelled.
        """
        from omnigraph.graph.bulk import Bulk, ExportTerms, Terms  # noqa: PLC0415

        asked = ExportTerms(
            target=target,
            format=format,
            types=None if types is None else tuple(types),
            parts=bool(parts),
            compression=compression,
            overwrite=bool(overwrite),
            storage_options=storage_options,
        )
        terms = Terms(engine=engine, spark=spark, progress=progress)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            pinned = self._pinned(branch, at)
            return Bulk(self._engine).export(pinned, self._language(pinned).catalog, asked, terms)

    def to_spark(
        self,
        type_name: str,
        *,
        branch: str = MAIN,
        at: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        spark: object = None,
    ) -> Any:
        """One type as a Spark DataFrame, pinned to a commit; Spark reads the tables itself.

        The same as `spark.read.format("omnigraph")` with `path` and `type` as options.

        Args:
            type_name: The type, `Person`; `node:Person` where an edge type has the same name.
            branch: Its newest state.
            at: The state that this commit made, instead.
            columns: Only these columns; Spark cannot leave columns out by itself.
            where: Only the rows for which this condition on the columns, in SQL, is true. The scan
                applies it; what Spark filters later, it filters after reading.
            spark: A Spark master or session.
        """
        from omnigraph.graph.bulk import Bulk  # noqa: PLC0415

        pinned = self._pinned(branch, at)
        wanted = None if columns is None else tuple(columns)
        return Bulk(self._engine).to_spark(
            type_name, pinned, wanted, where, spark
        )

    def stream_sink(
        self,
        type_name: str,
        *,
        stream: str,
        mode: str = "merge",
        branch: str = MAIN,
        replace: bool = False,
        actor: str | None = None,
    ) -> Callable[[Any, int], None]:
        """A function for `foreachBatch` that takes each batch of a stream into the graph once.

        Every batch is one commit. Its number is part of an idempotency key, so a batch that Spark
        repeats after a failure, or after its checkpoint was lost, changes nothing.

            frame.writeStream.foreachBatch(graph.stream_sink("Person", stream="people")).start()

        Args:
            type_name: The type of the rows.
            stream: Names the stream. Two streams that share a name take each other's batches for
                their own; a stream that starts over with other data needs another name.
            mode: `merge`, or `append`, which refuses what exists.
            branch: Which branch to change.
            replace: With `merge`: replace whole entities, not only the fields that are named.
            actor: Who does it; the actor of the handle if not given.
        """
        name = IdempotencyKey(f"stream:{stream}:0").rpartition(":")[0]

        terms: dict[str, Any] = {"mode": mode, "branch": branch, "replace": replace}

        def write(frame: Any, batch: int) -> None:
            self.load({type_name: frame}, actor=actor, idempotency_key=f"{name}:{batch}", **terms)

        return write

    def optimize(
        self,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> OptimizeResult:
        """Compact tables and bring indexes up to date; one commit that changes no answer, or none.

        Example:
            ```python
            assert graph.optimize().commit is not None
            assert graph.optimize().commit is None
            ```
        """
        from omnigraph.graph.bulk import Bulk, Terms  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        known = BranchName(branch)
        terms = Terms(engine=engine, spark=spark, progress=progress)
        return Bulk(self._engine).optimize(known, who, terms)

    def embed(
        self,
        *,
        missing: bool = True,
        types: Sequence[str] | None = None,
        branch: str = MAIN,
        batch: int | None = None,
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
        progress: Callable[[Progress], None] | None = None,
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
            engine: `inprocess`, `spark`, or `auto`, which chooses by the size of the tables.
            spark: A Spark master or session.
            progress: Is called with a `Progress` while it goes on.

        Raises:
            InvalidInput: No embedding provider is configured, or there is no such type.
            Unavailable: The provider does not answer; what was committed stays.
            Forbidden: The graph is open for reading only.
        """
        from omnigraph.dataplane.load.fill import FillRequest  # noqa: PLC0415
        from omnigraph.dataplane.load.request import Fill  # noqa: PLC0415
        from omnigraph.graph.bulk import Bulk, Terms  # noqa: PLC0415

        request = FillRequest(
            branch=BranchName(branch),
            fill=Fill.MISSING if missing else Fill.ALL,
            types=types,
            batch=None if batch is None else whole_number(batch, "batch", 1),
            actor=self._actor if actor is None else Actor(actor),
        )
        terms = Terms(engine=engine, spark=spark, progress=progress)
        return Bulk(self._engine, self._parts.embeddings).embed(request, terms)

    def refresh(self) -> None:
        """Finish what dead writers left half-done, as far as that can be completed."""
        self._engine.refresh()

    def close(self) -> None:
        """Close the handle and let go of memory. Closing twice is fine.

        Afterwards whatever would read or write storage is refused with the code `closed`, through
        snapshots and results, too. Values that were read stay.
        """
        self._engine.close()
        self._last = None
        self._parts.worlds.close()
