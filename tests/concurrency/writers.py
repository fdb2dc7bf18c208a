"""Writers that start over until they succeed, and what must be true when they are done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.core.repository import Repository
from omnigraph.errors import Busy, Conflict, RecoveryRequired
from omnigraph.store.root import Root
from omnigraph.types import MAIN
from tests.graphs import Delta, audit, chain, reopen, rows, write

WRITERS = 8
SHARED = "node:Shared"
SCHEMA = "\n".join(
    ["node Shared { name: String @key }"]
    + [f"node Own{number} {{ name: String @key }}" for number in range(WRITERS)]
)
ATTEMPTS_MAX = 3_000


def own(racer: int) -> str:
    return f"node:Own{racer}"


@dataclass(frozen=True, slots=True)
class Job:
    """What each writer does: a row into each of some tables, so many times."""

    tables: str  # "own", "shared" or "both"
    rounds: int

    def keys(self, racer: int) -> list[str]:
        both = {"own": [own(racer)], "shared": [SHARED]}
        return both.get(self.tables, [SHARED, own(racer)])


def add(repo: Repository, racer: int, name: str, job: Job) -> None:
    """Commit one row per table, whatever it takes; the key makes an unclear attempt repeatable."""
    deltas = {key: Delta(insert=[{"id": name, "name": name}]) for key in job.keys(racer)}
    for _ in range(ATTEMPTS_MAX):
        try:
            write(repo, deltas, idempotency_key=name, actor=f"writer-{racer}")
            return
        except (Conflict, Busy):
            continue
        except RecoveryRequired:
            # Ours or a dead writer's. What can be settled without a roll-back is settled here,
            # and what needs one by the next opening, which anybody may do.
            repo.recovery.sweep()
    raise AssertionError(f"{name}: no progress")


def run(repo: Repository, racer: int, job: Job, label: str = "w") -> list[str]:
    """Write all rounds and name the rows that were acknowledged."""
    done = []
    for number in range(job.rounds):
        name = f"{label}{racer}-{number}"
        add(repo, racer, name, job)
        done.append(name)
    return done


def run_in_process(starter: Any, racer: int, root: Root, job: Job) -> list[str]:
    repo = reopen(root)
    starter.wait()
    return run(repo, racer, job)


def run_until_killed(pipe: Any, root: Root, racer: int, job: Job, label: str) -> None:
    """Write on and on, saying before each row that it comes and after it that it is there."""
    repo = reopen(root)
    number = 0
    while True:
        name = f"{label}{racer}-{number}"
        pipe.send(("begun", name))
        add(repo, racer, name, job)
        pipe.send(("done", name))
        number += 1


def whole(repo: Repository) -> bool:
    """A snapshot shows all tables of a commit or none: rows of `both` writers come in pairs."""
    snapshot = repo.snapshot()
    shared = set(rows(repo, SHARED, snapshot))
    owned = {name for racer in range(WRITERS) for name in rows(repo, own(racer), snapshot)}
    return shared == owned


def judge(
    root: Root, acknowledged: Sequence[str], job: Job, *, maybe: Sequence[str] = ()
) -> Repository:
    """Everything acknowledged is there, once; nothing else but what may be; history is one line."""
    repo = reopen(root)
    audit(repo)
    snapshot = repo.snapshot()
    shared = set(rows(repo, SHARED, snapshot))
    owned = {name for racer in range(WRITERS) for name in rows(repo, own(racer), snapshot)}
    assert len(set(acknowledged)) == len(acknowledged)
    for found, wanted in ((shared, job.tables != "own"), (owned, job.tables != "shared")):
        if wanted:
            assert found >= set(acknowledged)
            assert found <= {*acknowledged, *maybe}
        else:
            assert found == set()
    if job.tables == "both":
        assert shared == owned
    history = [each for each in repo.commits() if each.kind == "mutation"]
    keys = [each.idempotency_key for each in history]
    assert sorted(map(str, keys)) == sorted(shared | owned)
    assert len(chain(repo, MAIN)) == len(set(chain(repo, MAIN)))
    return repo
