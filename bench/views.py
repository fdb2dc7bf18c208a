"""Group `views`: what structures of the dense view are worth, each against the plain way."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

import omnigraph as og
from bench.measure import ROUNDS, Case
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository, components
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.read.program import prepare
from omnigraph.exec.tuning import tuned
from omnigraph.lang import compile_queries
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.store.root import Root
from omnigraph.types import CommitId

PERSONS, DEGREE, CITIES = 100_000, 5, 200
SCHEMA = "node Person { name: String @key  city: String }\nedge Knows: Person -> Person"
BY_CITY = "query q() { match { $p: Person } return { $p.city, count($p) as n } }"
PAIRS = "query q() { match { $a: Person $a knows $b } return { $a.city, count($b) as n } }"
NEVER = 1 << 62
_kept = ExitStack()  # folders live as long as the process


def cases() -> tuple[list[Case], list[str]]:
    """The cases of this group, and remarks about them."""
    folder = _kept.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-bench-"))
    root = Root.parse(str(Path(folder) / "g"))
    commits = _history(root)
    made = [
        Case(name="group by text, values", call=_grouping(root, dictionary_rows_min=NEVER)),
        Case(
            name="group by text, dictionary",
            call=_grouping(root),
            against="group by text, values",
            ratio_max=0.8,
        ),
        Case(
            name="query after a commit, built anew",
            call=_following(root, commits, delta_rows_min=0, delta_share=NEVER),
        ),
        Case(
            name="query after a commit, derived",
            call=_following(root, commits),
            against="query after a commit, built anew",
            ratio_max=0.5,
        ),
    ]
    size = f"{PERSONS:,} nodes, {PERSONS * DEGREE:,} edges, {CITIES} cities"
    return made, [size, "a commit changes one node and adds one edge"]


def _history(root: Root) -> list[CommitId]:
    """Make the graph and a commit for each query that follows one."""
    names = [f"person-{n * 7_919 % PERSONS:06}" for n in range(PERSONS)]
    people = pa.table({"name": names, "city": [f"city {n % CITIES}" for n in range(PERSONS)]})
    far = [names[(n * 31 + k * 977) % PERSONS] for n in range(PERSONS) for k in range(DEGREE)]
    edges = pa.table({"from": [name for name in names for _ in range(DEGREE)], "to": far})
    found: list[CommitId] = []
    with og.init(root.uri, SCHEMA) as graph:
        graph.load({"Person": people, "Knows": edges})
        found.append(CommitId(graph.snapshot().commit))
        for number in range(ROUNDS + 1):
            one, other = names[number], names[number + 1]
            graph.mutate(
                f'query q() {{ update Person set {{ city: "new" }} where name = "{one}" }}'
            )
            graph.mutate(f'query q() {{ insert Knows {{ from: "{one}", to: "{other}" }} }}')
            found.append(CommitId(graph.snapshot().commit))
    return found


def _asking(root: Root, text: str) -> tuple[Repository, Callable[[GraphVersion], int]]:
    repo, now = Repository.open(root, components(root)), 0
    views, catalog = ViewCache(repo), repo.schema(repo.snapshot()).catalog
    (plan,) = compile_queries(text, catalog)
    assert isinstance(plan, ReadPlan)
    program = prepare(plan, catalog)
    return repo, lambda at: len(program.run(views.view(at, catalog), {}, now).to_pylist())


def _grouping(root: Root, **changes: int) -> Callable[[], object]:
    repo, ask = _asking(root, BY_CITY)
    at = repo.snapshot()

    def call() -> None:
        with tuned(**changes):
            ask(at)

    return call


def _following(root: Root, commits: list[CommitId], **changes: int) -> Callable[[], object]:
    """Each call asks about the next commit; the first state is asked about beforehand."""
    repo, ask = _asking(root, PAIRS)
    states: Iterator[GraphVersion] = iter([repo.snapshot_at(commit) for commit in commits])
    ask(next(states))

    def call() -> None:
        with tuned(**changes):
            ask(next(states))

    return call
