"""Transactions at once: money is moved between accounts, and none is lost or made."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Busy, Code, Conflict
from omnigraph.store.root import Root
from tests.conformance.conftest import fresh_root, s3_options
from tests.conformance.racing import in_processes, in_threads

__all__ = ["s3_options"]

SCHEMA = """
node Account { owner: String @key  cents: I64  @range(cents, 0..) }
node Transfer { ref: String @key  cents: I64 }
edge Paid: Account -> Account { ref: String }
"""
LOST_RACES = {
    Code.EXPECTED_VERSION_MISMATCH,
    Code.HEAD_CONTENTION,
    Code.WRITER_ACTIVE,
    Code.BUSY,
}
ACCOUNTS = 5
CENTS = 1_000
READ = "query q($o: String) { match { $a: Account { owner: $o } } return { $a.cents as cents } }"
SET = "query q($o: String, $c: I64) { update Account set { cents: $c } where owner = $o }"
NOTE = """
query q($r: String, $c: I64, $s: String, $t: String) {
  insert Transfer { ref: $r, cents: $c }
  insert Paid { from: $s, to: $t, ref: $r }
}
"""
ALL = "query q() { match { $a: Account } return { $a.cents as cents } }"
DONE = "query q() { match { $t: Transfer } return { $t.ref as ref, $t.cents as cents } }"
PAID = "query q() { match { $a: Account  $a $p: paid $b } return { $p.ref as ref } }"


def start(root: Root) -> None:
    with og.init(root.uri, schema=SCHEMA, storage_options=dict(root.storage_options)) as graph:
        graph.load({"Account": [{"owner": f"a{n}", "cents": CENTS} for n in range(ACCOUNTS)]})


def transfer(tx: og.Transaction, source: str, target: str, cents: int, ref: str) -> bool:
    """Move money, if there is enough; the note of it goes with it."""
    have = tx.query(READ, {"o": source})[0]["cents"]
    if have < cents:
        return False
    tx.mutate(SET, {"o": source, "c": have - cents})
    # It sees its own change when an account pays itself.
    tx.mutate(SET, {"o": target, "c": tx.query(READ, {"o": target})[0]["cents"] + cents})
    tx.mutate(NOTE, {"r": ref, "c": cents, "s": source, "t": target})
    return True


def work(graph: og.Graph, racer: int, rounds: int) -> list[str]:
    """Make transfers; name those that were acknowledged."""
    done = []
    for number in range(rounds):
        moved = False
        ref = f"{racer}-{number}"
        source, target = (
            f"a{(racer + number) % ACCOUNTS}",
            f"a{(racer * 3 + number * 2) % ACCOUNTS}",
        )
        cents = 100 + 37 * number

        def move(tx: og.Transaction) -> bool:
            return transfer(tx, source, target, cents, ref)  # noqa: B023

        while True:
            try:
                if number % 3 == 2:
                    with graph.transaction() as tx:
                        moved = move(tx)
                else:
                    moved = graph.transact(move, idempotency_key=ref).value
                break
            except (Conflict, Busy) as error:
                if error.code not in LOST_RACES:
                    raise
        if moved:
            done.append(ref)
    return done


def watch(graph: og.Graph, rounds: int) -> None:
    """Whoever reads while others move money sees all of it."""
    for _ in range(rounds):
        now = graph.snapshot()
        assert sum(row["cents"] for row in now.query(ALL)) == ACCOUNTS * CENTS


def judge(root: Root, acknowledged: list[str]) -> None:
    with og.open(root.uri, storage_options=dict(root.storage_options)) as graph:
        watch(graph, 1)
        rows = graph.query(DONE).to_pylist()
        refs = sorted(row["ref"] for row in rows)
        assert refs == sorted(acknowledged)
        assert sorted(row["ref"] for row in graph.query(PAID)) == refs
        commits = [each for each in graph.commits.list() if each.kind == "transaction"]
        # A transfer is one commit, also if its answer was lost and it was repeated.
        assert len(commits) == len(refs)


def in_process(starter: Any, racer: int, root: Root, rounds: int) -> list[str]:
    with og.open(root.uri, storage_options=dict(root.storage_options)) as graph:
        starter.wait()
        return work(graph, racer, rounds)


def test_threads_move_money(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "graph"))
    start(root)
    with og.open(root.uri) as graph:

        def contend(racer: int) -> list[str]:
            if racer == 3:
                watch(graph, 5)
                return []
            return work(graph, racer, 3)

        done = in_threads(contend, 4)
    judge(root, [ref for mine in done for ref in mine])


@pytest.mark.deep
@pytest.mark.parametrize("place", ["local", "s3"])
def test_processes_move_money(request: pytest.FixtureRequest, tmp_path: Path, place: str) -> None:
    root = fresh_root(place, request, tmp_path)
    start(root)
    done = in_processes(in_process, 4, root, 12)
    judge(root, [ref for mine in done for ref in mine])
