"""A graph to change by queries, for the tests beside this file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.exec.mutate.mutator import CommitTerms, Mutated, MutationRequest, Mutator
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.graphs import Row, chain, make, rows

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String? @unique
    born: Date?
    seen: DateTime?
    score: F32?
    tags: [String]?
    role: enum(admin, guest)?
}
node Company { name: String @key }
node Note { text: String }
node Spot { x: I32  y: I32  label: String?  @key(x, y) }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1) { title: String? }
edge Rates: Person -> Company { stars: I32  @key(src, dst) }
edge Owns: Company -> Spot @card(1..)
"""


@dataclass
class Embedder:
    """Turns a text into numbers that tell it; remembers what it was asked."""

    asked: list[tuple[tuple[str, ...], int, str | None]] = field(default_factory=list)
    has_provider: bool = True

    def embed_texts(
        self, texts: Sequence[str], dim: int, model: str | None
    ) -> list[tuple[float, ...]]:
        self.asked.append((tuple(texts), dim, model))
        return [tuple(float(len(text) + place) for place in range(dim)) for text in texts]


class Lab:
    """A repository, and queries run on it."""

    def __init__(self, repo: Repository, limits: MutationLimits | None = None) -> None:
        self.repo = repo
        self.embedder = Embedder()
        self.waits: list[float] = []
        self.mutator = Mutator(repo, self.embedder, limits=limits, wait=self.waits.append)

    def plan(self, text: str, base: GraphVersion | None = None) -> MutationPlan:
        snapshot = base or self.repo.snapshot()
        (plan,) = compile_queries(text, self.repo.schema(snapshot).catalog)
        assert isinstance(plan, MutationPlan)
        return plan

    def run(
        self,
        body: str,
        given: Mapping[str, object] | None = None,
        *,
        params: str = "",
        branch: BranchName = MAIN,
        base: GraphVersion | None = None,
        **options: Any,
    ) -> Mutated:
        """Run the statements of one query, on the newest state or once on a given base."""
        snapshot = base or self.repo.snapshot(branch)
        plan = self.plan(f"query q({params}) {{ {body} }}", snapshot)
        catalog = self.repo.schema(snapshot).catalog
        bound = bind(plan.params, given or {})
        retries = options.pop("retries", None)
        terms = CommitTerms(**options)
        request = MutationRequest(plan=plan, params=bound, catalog=catalog, terms=terms)
        if base is not None:
            return self.mutator.run(request, base)
        return self.mutator.mutate(request, snapshot, retries=retries)

    def rows(self, key: str, branch: BranchName = MAIN) -> dict[str, Row]:
        return rows(self.repo, key, self.repo.snapshot(branch))

    def column(self, key: str, name: str) -> dict[str, Any]:
        return {each: row[name] for each, row in self.rows(key).items()}

    def ends(self, key: str) -> list[tuple[str, str]]:
        return sorted((row["src"], row["dst"]) for row in self.rows(key).values())

    def commits(self) -> int:
        return len(chain(self.repo))


def lab(folder: Path, schema: str = SCHEMA, limits: MutationLimits | None = None) -> Lab:
    return Lab(make(Root.parse(str(folder / "graph")), schema), limits)


def counts(done: Mutated) -> tuple[int, int]:
    return done.affected_nodes, done.affected_edges
