"""An open transaction: queries that see each other's changes, and one commit in the end.

It is a mutation that is kept open. All of it happens on one base; nothing is written before the
commit, which is refused when others have changed meanwhile what was read or is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.repository import Repository
from omnigraph.exec.access import QueryExecutor, SnapshotReader
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.mutate.delta import stage
from omnigraph.exec.mutate.embedding import EmbedderSource, QueryEmbeddings
from omnigraph.exec.mutate.mutator import (
    CommitTerms,
    Mutated,
    Mutator,
    recorded,
    request_digest,
    tables_read,
)
from omnigraph.exec.overlay.table import TableOverlay
from omnigraph.exec.overlay.views import OverlayReader
from omnigraph.exec.preconditions import required_head
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue, EntityRef
from omnigraph.lang.ir.ops import MutationPlan, ReadPlan
from omnigraph.runtime import telemetry

if TYPE_CHECKING:
    from omnigraph.dataplane.load.small_load import SmallLoad


class OpenTransaction:
    """The changes and the reads of a transaction that has not ended. For one thread."""

    def __init__(
        self,
        repo: Repository,
        mutator: Mutator,
        executor: QueryExecutor,
        embedder: EmbedderSource,
        base: GraphVersion,
        catalog: Catalog,
        terms: CommitTerms,
        replays: CommitRecord | None = None,
    ) -> None:
        """Begin on a base; `catalog` is the schema in force there.

        `replays` is the commit of an earlier transaction with the same idempotency key; the base
        is then the one that it had.
        """
        self.base = base
        self.catalog = catalog
        self.terms = terms
        self._repo = repo
        self._mutator = mutator
        self._executor = executor
        self._replays = replays
        self._now_ms = repo.clock.now_us() // 1_000
        self._pending = mutator.pending(catalog, base, QueryEmbeddings(embedder))
        self._reads: set[str] = set()
        self._digest = blake2b(digest_size=16)
        self._reader: SnapshotReader | None = None  # of the changes as they stand

    def mutate(self, plan: MutationPlan, params: Mapping[str, ConstValue]) -> dict[EntityRef, int]:
        """Run a changing query; returns how many entities of each type it touched."""
        self._repo.require_writable()
        self._reader = None
        self._reads |= tables_read(plan)
        self._digest.update(request_digest(plan, params).encode())
        with telemetry.span("mutate", query=plan.name), self._repo.preparing(self.base):
            return self._pending.run(plan.ops, EvalContext(params, self._now_ms))

    def load(self, small: SmallLoad, *, is_merge: bool) -> dict[EntityRef, int]:
        """Take the entities of a small input; returns how many of each type it touched."""
        # The decoders come with it, for which other transactions do not wait.
        from omnigraph.exec.mutate.loaded_rows import load_entities  # noqa: PLC0415

        self._repo.require_writable()
        for rows in small.sources:
            self._digest.update(repr((is_merge, rows.to_pylist())).encode())
        with telemetry.span("load"), self._repo.preparing(self.base):
            touched = load_entities(self._pending, self.catalog, small.entities, is_merge=is_merge)
        self._reader = None
        return touched

    def reader(self, plan: ReadPlan) -> SnapshotReader:
        """The reader of the changes as they stand, for a query.

        Raises:
            ConstraintViolated: A required value or the node at an end of an edge is missing.
        """
        self._repo.require_open()
        self._reads.update(entity.table_key for entity in plan.reads)
        if self._reader is None:
            with self._repo.preparing(self.base):
                overlays = {
                    delta.committed.key: TableOverlay.of(delta)
                    for delta in self._pending.readable()
                    if delta.count
                }
            self._reader = OverlayReader(
                self._executor, self.base, self.catalog, overlays, self._now_ms
            )
        return self._reader

    def commit(self) -> Mutated:
        """Judge the changes by all rules of the schema, and commit them.

        Raises:
            ConstraintViolated: They break rules; it lists all of them.
            Conflict: Others have changed what was read or is written.
        """
        self._repo.require_writable()
        digest = self._digest.hexdigest()
        if self._replays is not None:
            return recorded(self._replays, digest)
        with telemetry.span("transaction"), self._repo.preparing(self.base):
            outcome = self._pending.outcome()
            writes = stage(self._repo, self.base, outcome.deltas)
        return self._mutator.commit(
            self.base, outcome, writes, frozenset(self._reads), self.terms, digest
        )


def begin(
    repo: Repository,
    mutator: Mutator,
    executor: QueryExecutor,
    embedder: EmbedderSource,
    base: GraphVersion,
    terms: CommitTerms,
) -> OpenTransaction:
    """Begin a transaction on the newest state of a branch.

    If an earlier one with the same idempotency key was committed, it begins where that one did, so
    that both can be compared.

    Raises:
        PreconditionFailed: The branch has changed since `if_commit`.
        Forbidden: The graph is open for reading only.
    """
    repo.require_writable()
    known = mutator.find_replay(terms, base)
    if known is not None and known.parent_id is not None:
        base = repo.snapshot_at(known.parent_id, base.branch)
    else:
        terms = replace(terms, if_commit=required_head(repo, base, terms.if_commit))
    catalog = repo.schema(base).catalog
    return OpenTransaction(repo, mutator, executor, embedder, base, catalog, terms, known)
