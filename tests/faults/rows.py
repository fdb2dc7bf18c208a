"""The rows of the small graphs of `worlds`, and two ways to change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Repository
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.embed.source import Embeddings
from omnigraph.exec.access import QueryExecutor
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.mutate.mutator import CommitTerms, Mutated, Mutator
from omnigraph.exec.mutate.transaction import begin as begin_transaction
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.program import prepare
from omnigraph.exec.search.search import Search
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.types import MAIN, BranchName

__all__ = ["CITY", "COMPANY", "DEV", "KEY", "KNOWS", "PERSON", "add", "insertion", "transaction"]

PERSON: Final = "node:Person"
COMPANY: Final = "node:Company"
KNOWS: Final = "edge:Knows"
CITY: Final = "node:City"
DEV: Final = BranchName("dev")
KEY: Final = "the-one-write"  # the idempotency key of what is broken


def _row(key: str, name: str) -> dict[str, object]:
    if key == KNOWS:
        return {"id": name, "src": "p0", "dst": "p1"}
    return {"id": name, "name": name}


def insertion(
    repo: Repository,
    branch: BranchName,
    rows: Mapping[str, tuple[str, ...]],
    *,
    kind: WriterKind,
    key: str | None = None,
    base: GraphVersion | None = None,
) -> Prepared:
    """A write that inserts the named rows into their tables."""
    base = base or repo.snapshot(branch)
    writes: list[TableWrite] = []
    for table, names in rows.items():
        target = repo.writable_table(base, table)
        fresh = pa.Table.from_pylist([_row(table, name) for name in names], schema=target.schema)
        staged = repo.tables.stage(target, inserts=fresh, uuid=repo.ids.new())
        if staged is None:
            raise AssertionError("there are rows, so something is staged")
        writes.append(TableWrite(table_key=table, staged=(staged,)))
    commit = replace(repo.new_commit(base, kind), actor="tester", idempotency_key=key)
    return Prepared(base=base, commit=commit, tables=tuple(writes))


def add(
    repo: Repository,
    rows: Mapping[str, tuple[str, ...]],
    *,
    branch: BranchName = MAIN,
    key: str | None = None,
) -> Published:
    """Insert named rows in one commit."""
    return repo.commit(insertion(repo, branch, rows, kind=WriterKind.MUTATION, key=key))


def transaction(
    repo: Repository,
    statements: Iterable[str],
    *,
    branch: BranchName = MAIN,
    key: str | None = None,
) -> Mutated:
    """Changing queries in one commit. One that reads counts what they made, and finds one."""
    base = repo.snapshot(branch)
    terms = CommitTerms(kind=WriterKind.TRANSACTION, actor="tester", idempotency_key=key)
    engine = QueryExecutor(repo, ViewCache(repo), Search(), Limits())
    embeddings = Embeddings(lambda: None)
    mutator = Mutator(repo, embeddings)
    work = begin_transaction(repo, mutator, engine, embeddings, base, terms)
    for text in statements:
        (plan,) = compile_queries(f"query q() {{ {text} }}", work.catalog)
        if isinstance(plan, MutationPlan):
            work.mutate(plan, {})
        else:
            rows = work.reader(plan).run(prepare(plan, work.catalog), {}, "auto", None)
            if rows.to_pylist() != [{"n": 1}]:
                raise AssertionError("it does not see what it made")
    return work.commit()
