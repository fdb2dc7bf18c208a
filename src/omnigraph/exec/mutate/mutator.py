"""Changing queries from plan to commit, and what happens when others write at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import REQUEST, key_reused
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.requirements import schema_changed
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.locks import writer_queue
from omnigraph.core.repository import Repository
from omnigraph.core.retry import wait_seconds, with_retries
from omnigraph.core.storage_errors import storage_errors
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.embed.missing import DETAIL, MissingVectors, as_json, from_json
from omnigraph.errors import (
    JsonValue,
)
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.mutate.committed import CommittedRows, MutationLimits
from omnigraph.exec.mutate.delta import MutationDelta, stage
from omnigraph.exec.mutate.embedding import EmbedderSource, QueryEmbeddings
from omnigraph.exec.mutate.pending import PendingChanges
from omnigraph.exec.preconditions import required_head
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.ir.expr import ConstValue, EntityRef
from omnigraph.lang.ir.ops import DeleteOp, InsertOp, MutationPlan
from omnigraph.runtime import cancellation, telemetry
from omnigraph.types import CommitId

_NODES, _EDGES = "affected_nodes", "affected_edges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """The result of a mutation. No commit: nothing matched, so nothing was published."""

    affected_nodes: int
    affected_edges: int
    commit: CommitRecord | None
    replayed: bool = False
    missing: tuple[MissingVectors, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTerms:
    """The terms on which changes are committed.

    Attributes:
        kind: What makes the commit.
        actor: On whose behalf.
        if_commit: Only if this is still the newest commit of the branch, apart from maintenance.
        idempotency_key: Names the operation, so that repeating it does it once.
        message: What the commit is about.
    """

    kind: WriterKind = WriterKind.MUTATION
    actor: str | None = None
    if_commit: CommitId | None = None
    idempotency_key: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRequest:
    """A changing query with its parameters, and the terms on which it is committed."""

    plan: MutationPlan
    params: Mapping[str, ConstValue]
    catalog: Catalog
    terms: CommitTerms = CommitTerms()

    @property
    def digest(self) -> str | None:
        """A digest that differs for other requests under the same key; None without a key."""
        if self.terms.idempotency_key is None:
            return None
        return request_digest(self.plan, self.params)

    @property
    def concerns(self) -> frozenset[str]:
        """The tables that it may change or is judged against, as far as the plan shows."""
        found = {op.entity.table_key for op in self.plan.ops}
        for op in self.plan.ops:
            if isinstance(op, DeleteOp):
                found.update(cascade.edge.table_key for cascade in op.cascades)
            elif isinstance(op, InsertOp) and op.ends is not None:
                found.update(end.table_key for end in op.ends)
        return frozenset(found)

    @property
    def embeds(self) -> bool:
        """True if it may have to ask a model for vectors."""
        return any(op.embeds for op in self.plan.ops if not isinstance(op, DeleteOp))


class Mutator:
    """Runs changing queries on one graph. Thread-safe."""

    def __init__(
        self,
        repo: Repository,
        embedder: EmbedderSource,
        *,
        limits: MutationLimits | None = None,
        wait: Callable[[float], None] = wait_seconds,
    ) -> None:
        """Work on this graph; the embedder is asked only when a query needs it."""
        self._repo = repo
        self._embedder = embedder
        self._limits = limits or MutationLimits()
        self._wait = wait

    def mutate(
        self, request: MutationRequest, base: GraphVersion, *, retries: int | None = None
    ) -> Mutated:
        """Run a query on the newest state of a branch.

        When others come first it is evaluated anew on a newer state, so what it does is what it
        would do if it ran alone after them. With `if_commit` it is not: that state is gone.

        Args:
            request: The query.
            base: The newest state of the branch, as the caller pinned it.
            retries: How often it starts over; None: as often as the setting says.
        """
        is_conditional = request.terms.if_commit is not None
        policy = self._repo.retry.with_retries(0 if is_conditional else retries)
        embeddings = QueryEmbeddings(self._embedder)
        # No writer waits while another one calls a model; the vectors are kept for later.
        asks = request.embeds and embeddings.has_provider
        root, branch = self._repo.root.uri, base.branch

        def attempt(losses: int, is_stale: bool) -> Mutated:
            queue: AbstractContextManager[bool] = nullcontext(False)
            if losses or not asks:
                queue = writer_queue.preparing(root, branch, request.concerns)
            with queue as has_waited:
                cancellation.check()
                # The writer that was let through before us has most likely changed what we pinned.
                is_new = is_stale or has_waited
                return self._run(
                    request, self._repo.snapshot(branch) if is_new else base, embeddings
                )

        return with_retries(
            attempt, root=root, branch=branch, policy=policy, name="mutation", wait=self._wait
        )

    def run(self, request: MutationRequest, base: GraphVersion) -> Mutated:
        """Run a query on a given base, once."""
        return self._run(request, base, QueryEmbeddings(self._embedder))

    # -- one attempt -------------------------------------------------------------------------------

    def _run(
        self, request: MutationRequest, base: GraphVersion, embeddings: QueryEmbeddings
    ) -> Mutated:
        # Said before anything is read, and also when nothing would match.
        self._repo.require_writable()
        known = self.find_replay(request.terms, base)
        if known is not None:
            return recorded(known, request.digest)
        request = self._checked(request, base)
        with telemetry.span("mutate", query=request.plan.name), self._repo.preparing(base):
            outcome = self._outcome(request, base, embeddings)
            writes = stage(self._repo, base, outcome.deltas)
        reads = tables_read(request.plan)
        return self.commit(base, outcome, writes, reads, request.terms, request.digest)

    def commit(
        self,
        base: GraphVersion,
        outcome: MutationDelta,
        writes: tuple[TableWrite, ...],
        reads: frozenset[str],
        terms: CommitTerms,
        digest: str | None,
    ) -> Mutated:
        """Commit changes that are staged.

        Args:
            base: What they were made for.
            outcome: The changes, judged.
            writes: The same, staged.
            reads: The tables whose rows decided what they are.
            terms: What the commit is.
            digest: Differs for other requests under the same idempotency key; None without one.
        """
        if not writes:
            return Mutated(affected_nodes=0, affected_edges=0, commit=None)
        written = {item.table_key for item in writes}
        judged = outcome.judged | reads
        counts = {_NODES: outcome.count("node"), _EDGES: outcome.count("edge")}
        details: dict[str, JsonValue] = {**counts}
        if terms.idempotency_key is not None:
            details[REQUEST] = digest
        if outcome.missing:
            details[DETAIL] = as_json(outcome.missing)
        prepared = Prepared(
            base=base,
            commit=replace(
                self._repo.new_commit(base, terms.kind),
                actor=terms.actor,
                idempotency_key=terms.idempotency_key,
                message=terms.message,
                details=details,
            ),
            tables=writes,
            head=terms.if_commit,
            judged={key: base.pin(key).version for key in sorted(judged - written)},
        )
        published = self._repo.commit(prepared)
        if published.replayed:
            return recorded(published.commit, digest)
        return Mutated(
            affected_nodes=counts[_NODES],
            affected_edges=counts[_EDGES],
            commit=published.commit,
            missing=outcome.missing,
        )

    def _outcome(
        self, request: MutationRequest, base: GraphVersion, embeddings: QueryEmbeddings
    ) -> MutationDelta:
        """Carry out the statements in memory and judge what comes out."""
        pending = self.pending(request.catalog, base, embeddings)
        pending.run(
            request.plan.ops, EvalContext(request.params, self._repo.clock.now_us() // 1_000)
        )
        return pending.outcome()

    def pending(
        self, catalog: Catalog, base: GraphVersion, embeddings: QueryEmbeddings
    ) -> PendingChanges:
        """No changes yet, on this base."""
        known: dict[str, CommittedRows] = {}

        def committed(ref: EntityRef) -> CommittedRows:
            key = ref.table_key
            if key not in known:
                entity = _entity(catalog, ref)
                known[key] = CommittedRows(self._repo, base, entity, self._limits)
            return known[key]

        return PendingChanges(committed, embeddings, self._repo.ids)

    def find_replay(self, terms: CommitTerms, base: GraphVersion) -> CommitRecord | None:
        """The commit of an earlier call with the same key; running on its result could fail."""
        if terms.idempotency_key is None:
            return None
        with storage_errors():
            return self._repo.manifest.find_key(base.branch, terms.idempotency_key)

    def _checked(self, request: MutationRequest, base: GraphVersion) -> MutationRequest:
        """The request, if it fits its base, with the head that it requires."""
        head = required_head(self._repo, base, request.terms.if_commit)
        catalog = self._repo.schema(base).catalog
        if catalog is not request.catalog and catalog != request.catalog:
            raise schema_changed(base.branch)
        return replace(request, terms=replace(request.terms, if_commit=head))


def recorded(commit: CommitRecord, digest: str | None) -> Mutated:
    """The outcome of an earlier call, read from its commit, if it was the same call."""
    if commit.details.get(REQUEST) != digest:
        raise key_reused(commit)
    return Mutated(
        affected_nodes=_number(commit.details.get(_NODES)),
        affected_edges=_number(commit.details.get(_EDGES)),
        commit=commit,
        replayed=True,
        missing=from_json(commit.details.get(DETAIL)),
    )


def tables_read(plan: MutationPlan) -> frozenset[str]:
    """The tables whose rows decide what a query does, even where none of them matches."""
    return frozenset(op.entity.table_key for op in plan.ops if not isinstance(op, InsertOp))


def request_digest(plan: MutationPlan, params: Mapping[str, ConstValue]) -> str:
    """A digest that differs for other queries and parameters."""
    values = sorted(params.items())
    return blake2b(repr((plan.ops, values)).encode(), digest_size=16).hexdigest()


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _entity(catalog: Catalog, ref: EntityRef) -> EntityType:
    if ref.kind == "node":
        return catalog.node_by_name[ref.name]
    return catalog.edge_by_name[ref.name]
