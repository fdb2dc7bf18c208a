"""A view that follows from an older one is the same as one that was read anew."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Repository
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.dataplane.optimize.optimizer import Optimizer
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.lang.ir.ops import Towards
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from omnigraph.store.writing.inline_compaction import FANOUT
from omnigraph.types import MAIN, BranchName
from tests.examples import examples
from tests.graphs import Delta, companies, make, rows, write
from tests.unit.exec.dense.dense_graphs import (
    COMPANY,
    ENTITIES,
    KNOWS,
    PERSON,
    SCHEMA,
    WORKS_AT,
    check_view,
    handles,
    knows,
    persons,
    view_of,
)

DRAFT = BranchName("draft")


def warm(view: DenseView) -> None:
    """Load everything, so that the next version can follow from it."""
    for entity in ENTITIES:
        view.rank(entity, handles())
        for column in view.type_columns(entity).table().schema.names:
            view.take(entity, column, None)
    for edge in (KNOWS, WORKS_AT):
        for towards in ways(edge.name):
            view.neighbours(edge, towards, handles())
            view.edges(edge, towards, handles())


def ways(edge: str) -> Sequence[Towards]:
    return list(Towards) if edge == "Knows" else [Towards.OUT, Towards.IN]


def check_same(view: DenseView, fresh: DenseView) -> None:
    """Compare the arrays of two views: not only the answers are the same."""
    for entity in ENTITIES:
        one, other = view.type_columns(entity), fresh.type_columns(entity)
        assert (
            one.entity_index.get().rows.all().tolist()
            == other.entity_index.get().rows.all().tolist()
        )
        for column in one.table().schema.names:
            assert one.column(column).equals(other.column(column)), (entity.name, column)
        if entity.kind == "node":
            assert one.index.keys.tolist() == other.index.keys.tolist()
        else:
            assert one.edge_ids.get().order.tolist() == other.edge_ids.get().order.tolist()
            assert one.edge_ids.get().rank.tolist() == other.edge_ids.get().rank.tolist()
    for edge in (KNOWS, WORKS_AT):
        for towards in ways(edge.name):
            for kind in ("links", "edges"):
                made = getattr(view.adjacency(edge), kind)[towards].get()
                read = getattr(fresh.adjacency(edge), kind)[towards].get()
                for name in ("offsets", "targets", "degrees", "edges"):
                    same = np.array_equal(getattr(made, name), getattr(read, name))
                    assert same, (edge.name, towards, kind, name)


@contextmanager
def graph() -> Iterator[Repository]:
    with TemporaryDirectory() as folder:
        yield make(Root.parse(str(Path(folder, "graph"))), SCHEMA)


# -- random histories ------------------------------------------------------------------------------

NAMES = ["", "a", "aa", "ab", "b", "ba", "bbbbbbbbbb", "bbbbbbbbbbc", "c", "d", "é", "z"]
names = st.sampled_from(NAMES)


@dataclass(slots=True)
class Change:
    """The changes of one commit, as far as the graph allows."""

    born: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    aged: list[str] = field(default_factory=list)
    linked: list[tuple[str, str]] = field(default_factory=list)
    unlinked: int = 0
    turned: int = 0
    hired: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    look: bool = True


changes = st.builds(
    Change,
    born=st.lists(names, max_size=3, unique=True),
    gone=st.lists(names, max_size=2, unique=True),
    aged=st.lists(names, max_size=2, unique=True),
    linked=st.lists(st.tuples(names, names), max_size=4),
    unlinked=st.integers(0, 2),
    turned=st.integers(0, 1),
    hired=st.lists(names, max_size=1),
    opened=st.lists(st.sampled_from(["acme", "bcme"]), max_size=1),
    look=st.booleans(),
)


def apply(repo: Repository, change: Change, branch: BranchName, number: int) -> None:
    base = repo.snapshot(branch)
    people = set(rows(repo, "node:Person", base))
    firms = set(rows(repo, "node:Company", base))
    friends = rows(repo, "edge:Knows", base)
    jobs = rows(repo, "edge:WorksAt", base)
    gone = set(change.gone) & people
    alive = (people - gone) | set(change.born)
    cut = [e for e, row in friends.items() if {row["src"], row["dst"]} & gone]
    cut += [e for e in sorted(friends) if e not in cut][: change.unlinked]
    turned = [e for e in sorted(friends) if e not in cut][: change.turned]
    links = [pair for pair in change.linked if set(pair) <= alive]
    hired = [name for name in change.hired if name in alive] if firms else []
    deltas = {
        "node:Person": Delta(
            insert=[
                {"id": n, "name": n, "age": number, "spot": [1.0, number, 0.0] if n else None}
                for n in change.born
                if n not in people - gone
            ],
            update={
                n: {"age": number, "bio": f"{n} {number}"}
                for n in change.aged
                if n in people - gone
            },
            delete=sorted(gone),
        ),
        "node:Company": Delta(
            insert=[{"id": n, "name": n} for n in set(change.opened) - firms],
        ),
        "edge:Knows": Delta(
            insert=[
                {"id": f"{99 - number}-{place}", "src": s, "dst": d, "since": number}
                for place, (s, d) in enumerate(links)
            ],
            # An edge may be rewritten with other ends under its id.
            update={e: {"src": friends[e]["dst"], "dst": friends[e]["src"]} for e in turned},
            delete=cut,
        ),
        "edge:WorksAt": Delta(
            insert=[{"id": f"{number}", "src": n, "dst": min(firms)} for n in hired],
            delete=[e for e, row in jobs.items() if row["src"] in gone],
        ),
    }
    wanted = {k: d for k, d in deltas.items() if d.insert or d.update or d.delete}
    if wanted:
        write(repo, wanted, branch=branch)


@examples(20)
@given(st.lists(changes, min_size=2, max_size=6), st.lists(changes, max_size=2))
def test_random_histories(history: list[Change], on_branch: list[Change]) -> None:
    with graph() as repo:
        views = ViewCache(repo)
        for number, change in enumerate([*history, *on_branch]):
            branch = MAIN if number < len(history) else DRAFT
            if number == len(history):
                repo.create_branch(DRAFT)
            apply(repo, change, branch, number)
            if change.look:
                snapshot = repo.snapshot(branch)
                view = view_of(views, repo, snapshot)
                warm(view)
                check_view(view, repo, snapshot)
                check_same(view, view_of(ViewCache(repo), repo, snapshot))


# -- that it does follow, and when it does not -----------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    repo = make(Root.parse(str(tmp_path / "graph")), SCHEMA)
    edges = [("k1", "b", "d"), ("k2", "d", "b"), ("k3", "b", "d"), ("k4", "f", "f")]
    work = [{"id": "w", "src": "b", "dst": "acme"}]
    write(
        repo,
        {
            "node:Person": persons("b", "d", "f", "h"),
            "node:Company": companies("acme"),
            "edge:Knows": knows(*edges),
            "edge:WorksAt": Delta(insert=work),
        },
    )
    return repo


def follow(
    repo: Repository, change: Callable[[], Any], branch: BranchName = MAIN
) -> dict[str, int]:
    """Look, change, look again; tell what the second look cost."""
    views = ViewCache(repo)
    warm(view_of(views, repo, repo.snapshot(branch)))
    change()
    snapshot = repo.snapshot(branch)
    with telemetry.counting() as counts:
        view = view_of(views, repo, snapshot)
        warm(view)
    check_view(view, repo, snapshot)
    check_same(view, view_of(ViewCache(repo), repo, snapshot))
    return counts.snapshot()


def test_a_new_edge_is_not_worth_reading_everything(repo: Repository) -> None:
    cost = follow(repo, lambda: write(repo, {"edge:Knows": knows(("k0", "h", "d"))}))
    assert "dense.entity_index_read" not in cost
    assert "dense.ends_read" not in cost
    assert "dense.column_read" not in cost
    assert cost["dense.rows_derived"] == 6


def test_a_new_node_moves_handles(repo: Repository) -> None:
    cost = follow(repo, lambda: write(repo, {"node:Person": persons("c", "a", "z")}))
    assert "dense.entity_index_read" not in cost
    assert "dense.ends_read" not in cost
    assert cost["dense.rows_derived"] == 10  # adjacency of both edge types


def test_deleted_nodes_take_their_edges_along(repo: Repository) -> None:
    deltas = {
        "node:Person": Delta(delete=["b"]),
        "edge:Knows": Delta(delete=["k1", "k2", "k3"]),
        "edge:WorksAt": Delta(delete=["w"]),
    }
    cost = follow(repo, lambda: write(repo, deltas))
    assert "dense.ends_read" not in cost


def test_a_link_goes_with_its_last_edge(repo: Repository) -> None:
    follow(repo, lambda: write(repo, {"edge:Knows": Delta(delete=["k1"])}))
    follow(repo, lambda: write(repo, {"edge:Knows": Delta(delete=["k3"])}))
    follow(repo, lambda: write(repo, {"edge:Knows": Delta(delete=["k2"])}))


def test_an_id_that_comes_back_is_somebody_else(repo: Repository) -> None:
    def change() -> None:
        write(repo, {"node:Person": Delta(delete=["h"])})
        write(repo, {"node:Person": persons("h", age=7)})

    cost = follow(repo, change)
    assert "dense.entity_index_read" not in cost


def test_folding_fragments_changes_nothing(repo: Repository) -> None:
    for number in range(FANOUT - 2):
        write(repo, {"edge:Knows": knows((f"f{number}", "b", "h"))})

    def change() -> None:
        for number in range(3):
            write(repo, {"edge:Knows": knows((f"g{number}", "h", "b"))})

    before = len(repo.table(repo.snapshot().pin("edge:Knows")).fragment_ids())
    cost = follow(repo, change)
    assert len(repo.table(repo.snapshot().pin("edge:Knows")).fragment_ids()) < before
    assert "dense.ends_read" not in cost


def test_compaction_changes_nothing(repo: Repository) -> None:
    for number in range(4):
        write(repo, {"edge:Knows": knows((f"f{number}", "b", "h"))})

    def change() -> None:
        monitor = Monitor("optimize", "inprocess", "", repo.clock)
        done = Optimizer(repo).optimize(repo.snapshot(), InProcessRunner(), monitor)
        assert done.fragments["edge:Knows"][1] == 1

    cost = follow(repo, change)
    assert "dense.entity_index_read" not in cost
    assert "dense.ends_read" not in cost
    assert "dense.column_read" not in cost


def test_an_overwritten_table_is_read_anew_or_followed_exactly(repo: Repository) -> None:
    def change() -> None:
        table = repo.writable_table(repo.snapshot(), "node:Company")
        rows = pa.Table.from_pylist(
            [{"id": "acme", "name": "acme"}, {"id": "aaaa", "name": "aaaa"}], schema=table.schema
        )
        publish(
            repo,
            "node:Company",
            repo.tables.stage_overwrite(table, rows, uuid=repo.ids.new()),
        )

    follow(repo, change)


def test_a_branch_follows_from_where_it_left(repo: Repository) -> None:
    repo.create_branch(DRAFT)
    change = {"node:Person": persons("e"), "edge:Knows": knows(("k9", "e", "b"))}
    cost = follow(repo, lambda: write(repo, change, branch=DRAFT), DRAFT)
    assert "dense.entity_index_read" not in cost
    assert "dense.ends_read" not in cost


def test_several_versions_at_once(repo: Repository) -> None:
    def change() -> None:
        write(repo, {"node:Person": persons("a")})
        write(repo, {"edge:Knows": knows(("k7", "a", "b")), "node:Person": persons("c")})
        write(repo, {"node:Person": Delta(delete=["c"], update={"a": {"age": 3}})})

    cost = follow(repo, change)
    assert "dense.entity_index_read" not in cost


def test_structures_that_are_asked_for_now_and_then(repo: Repository) -> None:
    """Adjacency follows over versions at which only the nodes were looked at."""
    views = ViewCache(repo)
    warm(view_of(views, repo))
    for name in ("a", "c", "e"):
        write(repo, {"node:Person": persons(name)})
        view_of(views, repo).find(PERSON, [name])
    with telemetry.counting() as counts:
        view = view_of(views, repo)
        view.neighbours(KNOWS, Towards.OUT, handles(0))
    assert "dense.ends_read" not in counts.snapshot()
    check_same(view, view_of(ViewCache(repo), repo))


def test_a_missing_end_that_appears(repo: Repository) -> None:
    """It must not occur; if it does, what was skipped comes back with its node."""
    write(repo, {"edge:Knows": knows(("ghost", "b", "ghost"))})

    def appear() -> None:
        write(repo, {"node:Person": persons("ghost")})

    follow(repo, appear)


def test_derived_structures_get_their_predecessor(repo: Repository) -> None:
    views = ViewCache(repo)
    seen: list[Any] = []

    def build(previous: Any) -> list[str]:
        seen.append(previous)
        return ["made"]

    def ask() -> list[str]:
        return view_of(views, repo).derived(COMPANY, "name", "test", build, len)

    assert ask() is ask()
    write(repo, {"node:Company": companies("aaa")})
    ask()
    assert seen[0] is None
    assert len(seen) == 2
    assert seen[1].value == ["made"]
    assert seen[1].delta.written.tolist() == [0]
    assert seen[1].delta.forward_map().tolist() == [1]


def publish(repo: Repository, key: str, staged: Any) -> None:
    base = repo.snapshot()
    writes = (TableWrite(table_key=key, staged=(staged,)),)
    commit = repo.new_commit(base, WriterKind.MUTATION)
    repo.commit(Prepared(base=base, commit=commit, tables=writes))
