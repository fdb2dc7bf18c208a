"""Writers at once: nothing lost, nothing twice, one line of history."""

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from omnigraph.store.root import Root
from tests import tally
from tests.concurrency.writers import (
    SCHEMA,
    WRITERS,
    Job,
    judge,
    run,
    run_in_process,
    run_until_killed,
    whole,
)
from tests.conformance.conftest import fresh_root, s3_options
from tests.conformance.racing import in_processes
from tests.graphs import make, reopen

__all__ = ["s3_options"]

JOBS = [Job("own", 4), Job("shared", 3), Job("both", 3)]
jobs = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.tables)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.deep)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return fresh_root(request.param, request, tmp_path)


@pytest.fixture
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return fresh_root("local", request, tmp_path)


@jobs
@pytest.mark.parametrize("handles", ["one", "separate"])
def test_threads(local: Root, job: Job, handles: str) -> None:
    repo = make(local, SCHEMA)
    engines = [repo if handles == "one" else reopen(local) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        done = list(pool.map(lambda n: run(engines[n], n, job), range(WRITERS)))
    judged = judge(local, [name for names in done for name in names], job)
    assert len(list(judged.commits())) == WRITERS * job.rounds + 1 + _recoveries(judged)


def _recoveries(repo: Any) -> int:
    return sum(commit.kind == "recovery" for commit in repo.commits())


RACES = [
    ("local", 2, "both"),
    pytest.param("local", 4, "own", marks=pytest.mark.deep),
    pytest.param("local", 4, "shared", marks=pytest.mark.deep),
    ("local", 4, "both"),
    pytest.param("s3", 2, "both", marks=pytest.mark.deep),
    pytest.param("s3", 4, "own", marks=pytest.mark.deep),
    pytest.param("s3", 4, "shared", marks=pytest.mark.deep),
]


@pytest.mark.parametrize(("place", "racers", "tables"), RACES)
def test_processes(
    place: str, racers: int, tables: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    root, job = fresh_root(place, request, tmp_path), Job(tables, 3)
    make(root, SCHEMA)
    done = in_processes(run_in_process, racers, root, job)
    judge(root, [name for names in done for name in names], job)


def test_readers_never_see_half_a_commit(local: Root) -> None:
    """Two tables change together; whoever looks at both sees both changes or neither."""
    repo = make(local, SCHEMA)
    job = Job("both", 6)
    over = threading.Event()

    def look(_: int) -> int:
        reader = reopen(local)
        looks = 0
        while not over.is_set():
            assert whole(reader)
            looks += 1
        return looks

    with ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look, number) for number in range(2)]
        writing = [pool.submit(run, repo, number, job) for number in range(2)]
        try:
            done = [name for each in writing for name in each.result()]
        finally:
            over.set()
        assert all(each.result() for each in looking)
    judge(local, done, job)


# -- one of them is killed -------------------------------------------------------------------------


def moments(seed: str, kills: int) -> Iterator[tuple[int, float]]:
    """After how many rows, and how many seconds later, a victim dies."""
    for number in range(kills):
        chance = sha256(f"{seed}-{number}".encode()).digest()
        yield chance[0] % 4, chance[1] / 255 * 0.04


def murder(root: Root, racer: int, job: Job, label: str, after: int, wait_s: float) -> Any:
    """Run a victim until it has acknowledged some rows, then kill it in the middle of something."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    victim = context.Process(target=run_until_killed, args=(there, root, racer, job, label))
    victim.start()
    there.close()
    said: list[tuple[str, str]] = []
    while sum(word == "done" for word, _ in said) < after + 1:
        said.append(here.recv())
    threading.Event().wait(wait_s)
    victim.kill()
    tally.count("writers ended by SIGKILL")
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    victim.close()
    try:
        while here.poll():
            said.append(here.recv())
    except EOFError:
        pass  # the other end went with the victim
    here.close()
    return said


@pytest.mark.parametrize(
    "tables", [pytest.param("shared", marks=pytest.mark.deep), pytest.param("both")]
)
def test_a_writer_is_killed_while_others_go_on(root: Root, tables: str) -> None:
    job = Job(tables, 6)
    kills = 3 if root.is_local else 1
    make(root, SCHEMA)
    over = threading.Event()

    def survive(racer: int) -> list[str]:
        repo = reopen(root)
        names: list[str] = []
        number = 0
        while not over.is_set():
            names += run(repo, racer, Job(tables, 1), label=f"s{number}-")
            number += 1
        return names

    with ThreadPoolExecutor(2) as pool:
        surviving = [pool.submit(survive, racer) for racer in (0, 1)]
        said: list[tuple[str, str]] = []
        try:
            for number, (after, wait_s) in enumerate(moments(f"{tables}-{root.is_local}", kills)):
                said += murder(root, 2, job, f"v{number}-", after, wait_s)
        finally:
            over.set()
        survivors = [name for each in surviving for name in each.result()]
    acknowledged = [name for word, name in said if word == "done"]
    begun = [name for word, name in said if word == "begun"]
    judge(root, [*survivors, *acknowledged], job, maybe=begun)
