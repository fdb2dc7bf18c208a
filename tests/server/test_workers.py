"""Several processes behind one socket, and servers that die: by the command line, for real."""

import json
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.server.job_records import JobRecords
from tests.cli.support import process
from tests.server.support import SCHEMA, G, names, send, until
from tests.serving import Launched, launched

WRITERS, WRITES = 4, 10


@pytest.fixture
def place(tmp_path: Path) -> Path:
    og.init(tmp_path / "g.omni", SCHEMA).close()
    return tmp_path / "g.omni"


@pytest.fixture
def two(place: Path) -> Iterator[Launched]:
    with launched(str(place), "--workers", "2", log=place.parent / "log") as found:
        yield found


def insert(served: Launched, name: str, key: str) -> int:
    """Add a person; the status of the answer, 0 if there is none."""
    body = {"query": f'query q() {{ insert Person {{ name: "{name}" }} }}'}
    try:
        return send(served, "POST", f"{G}/mutate", body, idempotency_key=key)[0]
    except (OSError, HTTPException):
        return 0


def worker_of(served: Launched) -> str:
    """The number of the process that answers a new connection."""
    text = send(served, "GET", "/metrics")[2].decode()
    found = re.search(r'worker="(\d)"', text)
    assert found is not None
    return found[1]


def is_gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_each_process_sees_what_the_other_committed(two: Launched) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            assert insert(two, f"p{number}", f"k{number}") == 200
            wanted = [f"p{each}" for each in range(number + 1)]
            assert all(found == wanted for found in pool.map(lambda _: names(two), range(8)))
    until(lambda: {worker_of(two) for _ in range(8)} == {"0", "1"})
    two.process.terminate()
    assert two.process.wait() == 0


def test_a_process_that_dies_is_replaced(two: Launched, tmp_path: Path) -> None:
    until(lambda: len(two.workers) == 2)
    assert insert(two, "A", "a") == 200
    victim = min(two.workers)
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in two.workers and len(two.workers) == 2)
    until(lambda: {worker_of(two) for _ in range(8)} == {"0", "1"})
    assert names(two) == ["A"]
    line = next(text for text in (tmp_path / "log").read_text().splitlines() if "ended" in text)
    assert json.loads(line) == {"worker": 0, "ended": -9, "replaced": True}


def test_processes_do_not_outlive_the_one_that_watches_them(two: Launched) -> None:
    workers = until(lambda: two.workers if len(two.workers) == 2 else None)
    assert insert(two, "A", "a") == 200
    two.process.kill()
    until(lambda: all(map(is_gone, workers)))


def test_processes_that_cannot_begin_end_the_server(place: Path) -> None:
    tokens = place.parent / "tokens.json"
    tokens.write_text("no tokens")
    log = place.parent / "log"
    with launched(str(place), "--workers", "2", "--tokens", str(tokens), log=log) as served:
        assert served.process.wait() != 0
    assert "end as soon as they begin" in log.read_text()


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.deep), 2])
def test_nothing_that_was_acknowledged_is_lost(place: Path, workers: int) -> None:
    arguments = (str(place), "--workers", str(workers))
    log = place.parent / "log"
    asked = [[f"w{writer}-{number}" for number in range(WRITES)] for writer in range(WRITERS)]
    everything = [name for mine in asked for name in mine]
    done: set[str] = set()

    def write(served: Launched, mine: list[str]) -> None:
        for name in mine:
            if insert(served, name, name) != 200:
                return
            done.add(name)

    with launched(*arguments, log=log) as served, ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, served, mine) for mine in asked]
        until(lambda: len(done) >= WRITES)
        served.kill()
        for each in writing:
            each.result()
    assert WRITES <= len(done) < WRITERS * WRITES
    with launched(*arguments, log=log) as served:
        found = names(served)
        assert done <= set(found)
        # Who heard nothing asks again with the same key, and it is done once.
        for name in everything:
            assert insert(served, name, name) == 200
        assert names(served) == sorted(everything)
        commits = json.loads(send(served, "GET", f"{G}/commits")[2])["commits"]
        keys = [item["idempotency_key"] for item in commits if "idempotency_key" in item]
        assert sorted(keys) == sorted(everything)


def test_jobs_of_a_dead_server_are_taken_up(place: Path) -> None:
    folder = place.parent / "jobs"
    with launched(str(place), "--jobs", str(folder), log=place.parent / "log") as served:
        assert send(served, "POST", f"{G}/jobs", {"kind": "export"})[0] == 202
        served.kill()
    # As it stands in its file when the server dies in the middle of it.
    records = JobRecords(folder, "tester")
    (left,) = records.all()
    records.write(replace(left, status="running", parts={}))
    records.close()
    with launched(str(place), "--jobs", str(folder), log=place.parent / "log") as served:
        path = f"{G}/jobs/{left.id}"

        def shown() -> dict[str, object]:
            found: dict[str, object] = json.loads(send(served, "GET", path)[2])
            return found

        assert until(lambda: shown() if shown()["status"] == "done" else None)["parts"]


def test_each_request_is_a_line_of_json_without_what_it_asks(place: Path) -> None:
    log = place.parent / "log"
    with launched(str(place), log=log) as served:
        secret = 'query q($n: String) { match { $p: Person { name: $n } } return { $p.name } } // "'
        for _ in range(3):
            body = {"query": secret, "params": {"n": "hidden"}}
            assert send(served, "POST", f"{G}/query", body, x_request_id="mine")[0] == 200
        assert send(served, "POST", f"{G}/query", {"query": "("})[0] == 400
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert [(line["route"], line["status"]) for line in lines] == [
        *[("cluster_query", 200)] * 3,
        ("cluster_query", 400),
    ]
    assert lines[0].keys() >= {"request_id", "graph", "actor", "milliseconds"}
    assert lines[0]["request_id"] == "mine"
    assert lines[3]["failure"]
    assert "hidden" not in log.read_text()


def test_an_address_that_is_taken_is_named(place: Path, two: Launched) -> None:
    answer = process("serve", place, "--bind", f"{two.host}:{two.port}", cwd=place.parent)
    assert answer.returncode == 75
    assert f"cannot listen on {two.host}:{two.port}: " in answer.stderr.decode()
