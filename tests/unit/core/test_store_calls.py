"""How many storage calls each operation makes, as reviewed numbers.

`OMNIGRAPH_REGENERATE=1 pytest tests/unit/core/test_store_calls.py` writes them anew; read the diff.
Cost must follow the change: the same operation costs the same after 1 and after 200 commits, and
making a branch the same with 5 and with 100 types.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from omnigraph.core.repository import OpenMode, Repository
from omnigraph.runtime import telemetry
from omnigraph.store import tuning
from omnigraph.store.root import Root
from omnigraph.types import BranchName, TagName
from tests.graphs import (
    COMPANY,
    KNOWS,
    PERSON,
    acquaintances,
    clean,
    companies,
    fresh_parts,
    make,
    many_types,
    people,
    prepare,
    reopen,
    write,
)

GOLDEN = Path(__file__).parent / "golden" / "store_calls.json"
REGENERATE = bool(os.environ.get("OMNIGRAPH_REGENERATE"))
DEV = BranchName("dev")
# With the same number of fragments to read.
SHORT, LONG = 1, 1 + 16 * 13


def counted(action: Callable[[], object]) -> dict[str, int]:
    with telemetry.counting() as counts:
        action()
    return {name: number for name, number in counts.snapshot().items() if "." in name}


def measure(root: Root, commits: int) -> dict[str, dict[str, int]]:
    """Every operation, on a graph with so much history."""
    repo = make(root)
    for number in range(commits):
        write(repo, {PERSON: people(f"p{number}")})
    for name, pair in (("q", ("q", "q")), ("r", ("r", "q"))):
        write(repo, {PERSON: people(name), COMPANY: companies(name), KNOWS: acquaintances(pair)})
    other = reopen(root)
    found: dict[str, dict[str, int]] = {}
    found["open to read"] = counted(
        lambda: Repository.open(root, fresh_parts(root), OpenMode.READ_ONLY)
    )
    found["open to write"] = counted(lambda: reopen(root))
    repo.snapshot()
    found["snapshot, nothing new"] = counted(repo.snapshot)
    write(other, {COMPANY: companies("s")})
    found["snapshot, one new commit"] = counted(repo.snapshot)
    one = prepare(repo, {PERSON: people("one")}, base=repo.snapshot())
    found["commit of 1 table"] = counted(lambda: repo.commit(one))
    three = prepare(
        repo,
        {PERSON: people("x"), COMPANY: companies("x"), KNOWS: acquaintances(("x", "x"))},
        base=repo.snapshot(),
    )
    found["commit of 3 tables"] = counted(lambda: repo.commit(three))
    keyed = prepare(repo, {PERSON: people("k")}, base=repo.snapshot(), idempotency_key="k")
    found["commit of 1 table, keyed"] = counted(lambda: repo.commit(keyed))
    found["replay"] = counted(lambda: repo.commit(keyed))
    found["create branch"] = counted(lambda: repo.create_branch(DEV))
    base = repo.snapshot(DEV)
    found["snapshot of a branch, nothing new"] = counted(lambda: repo.snapshot(DEV))
    found["fork of a table"] = counted(lambda: repo.writable_table(base, PERSON))
    first = prepare(repo, {PERSON: people("b")}, base=base)
    found["first commit on a branch"] = counted(lambda: repo.commit(first))
    again = prepare(repo, {PERSON: people("c")}, base=repo.snapshot(DEV))
    found["later commit on a branch"] = counted(lambda: repo.commit(again))
    found["delete branch"] = counted(lambda: repo.delete_branch(DEV))
    found["begin branch"] = counted(lambda: repo.abandon_branch(repo.begin_branch(DEV)))
    born = prepare(repo, {PERSON: people("d")}, base=repo.begin_branch(DEV))
    found["commit that makes its branch"] = counted(lambda: repo.commit(born))
    now = repo.snapshot()
    found["tag"] = counted(lambda: repo.refs.create_tag(TagName("v1"), now))
    return found


@pytest.fixture(scope="module", autouse=True)
def no_time_passes() -> Iterator[None]:
    """A head that was looked at is trusted: on a busy machine its time would run out in between."""
    with tuning.tuned(trusted_head_ns=1 << 62):
        yield


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    folder = tmp_path_factory.mktemp("calls")
    return measure(Root.parse(str(folder / "graph")), SHORT)


def test_the_counts_are_the_reviewed_ones(short: dict[str, dict[str, int]]) -> None:
    if REGENERATE:
        GOLDEN.write_text(json.dumps(short, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert short == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_history_costs_nothing(tmp_path: Path, short: dict[str, dict[str, int]]) -> None:
    long = measure(Root.parse(str(tmp_path / "graph")), LONG)
    # Opening reads the whole history as long as it is short: in as many calls, though not in as
    # many rows.
    reading = {"manifest.rows_read", "manifest.fragments_read", "manifest.history_read"}
    for operation, calls in short.items():
        plain = {name: n for name, n in calls.items() if name not in reading}
        assert {n: c for n, c in long[operation].items() if n not in reading} == plain, operation
        if not operation.startswith("open"):
            pieces = "manifest.fragments_read"
            assert long[operation].get(pieces) == calls.get(pieces), operation
            # The newest fragment, which takes its rows along until it is full.
            assert long[operation].get("manifest.rows_read", 0) <= tuning.active.absorbed_rows + 5


def test_types_cost_nothing(tmp_path: Path) -> None:
    """Making a branch, looking at it, and its first write."""
    found = []
    for types in (5, 100):
        repo = make(Root.parse(str(tmp_path / str(types))), many_types(types))
        write(repo, {"node:T0": companies("a")})
        repo.snapshot()
        counts = [counted(partial(repo.create_branch, DEV))]
        repo.snapshot(DEV)
        counts.append(counted(partial(repo.snapshot, DEV)))
        delta = {"node:T1": companies("b")}
        counts.append(counted(partial(write, repo, delta, branch=DEV)))
        found.append(counts)
    assert found[0] == found[1]


def test_other_branches_cost_nothing(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "graph")))
    write(repo, {PERSON: people("a")})
    repo.create_branch(BranchName("b0"))
    found = []
    for number in (1, 20):
        for each in range(len(repo.branches.list()), number + 1):
            repo.create_branch(BranchName(f"b{each}"))
        name = BranchName(f"x{number}")
        calls = counted(partial(repo.create_branch, name))
        repo.snapshot(name)
        found.append((calls, counted(partial(repo.snapshot, name))))
    assert found[0] == found[1]


def test_a_clean_up_looks_at_a_history_once_for_all_branches(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "graph")))
    found = []
    for number in range(4):
        for each in range(4):
            write(repo, {PERSON: people(f"p{number}{each}")})
            repo.create_branch(BranchName(f"b{number}{each}"))
        calls = counted(partial(clean, repo, dry_run=True))
        found.append(sum(calls[name] for name in calls if not name.startswith("manifest.")))
    # More of both take no more than before; each commit for each branch would. The first clean-up
    # of a graph makes a few calls of its own.
    assert found[3] - found[2] <= found[2] - found[1]
