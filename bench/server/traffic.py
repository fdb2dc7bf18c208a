"""Readers and writers at once, from processes of their own, for a minute."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from itertools import count
from pathlib import Path
from time import perf_counter

from bench.server.running import Running, ask, running

CLIENTS = 2
READERS, WRITERS = 4, 1  # threads of each client, each with a connection
SECONDS = 60.0  # of one run

READ = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age as age } }"
WRITE = "query add($name: String) { insert Person { name: $name, age: 1 } }"
PEOPLE = 10_000


@dataclass(slots=True)
class Answers:
    """What requests of one kind took, in seconds, and how many failed."""

    took: list[float] = field(default_factory=list)
    failed: int = 0

    def of_rank(self, share: float) -> float:
        """The time that a share of the requests did not exceed."""
        ordered = sorted(self.took)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A run with so many processes of the server."""

    workers: int
    reads: Answers
    writes: Answers
    seconds: float
    cpu: float

    @property
    def per_second(self) -> float:
        """Requests that were answered, per second."""
        return (len(self.reads.took) + len(self.writes.took)) / self.seconds


def busy(place: Path, workers: int, wanted: float, log: Path) -> Traffic:
    """Serve a graph to two clients at once, for so many seconds."""
    with running(place, "--workers", str(workers), log=log) as server:
        connection = server.connect()
        for number in range(50):
            _read(server, number, connection)
        connection.close()
        before, begin = server.cpu, perf_counter()
        clients = [_client(server, number, wanted) for number in range(CLIENTS)]
        told = [json.loads(client.communicate()[0]) for client in clients]
        seconds, cpu = perf_counter() - begin, server.cpu - before
    return Traffic(
        workers=workers,
        reads=_joined([Answers(**each["reads"]) for each in told]),
        writes=_joined([Answers(**each["writes"]) for each in told]),
        seconds=seconds,
        cpu=cpu,
    )


def _joined(found: Sequence[Answers]) -> Answers:
    return Answers(
        [each for item in found for each in item.took], sum(item.failed for item in found)
    )


def _client(server: Running, number: int, wanted: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.server.traffic", server.host, str(server.port)]
    terms = [str(number), str(wanted)]
    return subprocess.Popen([*command, *terms], stdout=subprocess.PIPE, text=True)


def _read(server: Running, number: int, connection: object = None) -> None:
    body = {"query": READ, "params": {"name": f"p{number * 7919 % PEOPLE}"}}
    ask(connection or server.connect(), "POST", "/graphs/people/query", **body)  # type: ignore[arg-type]


def main() -> None:
    """Be a client: threads that read, and one that writes; print what each request took."""
    arguments = argparse.ArgumentParser()
    for name, kind in (("host", str), ("port", int), ("client", int), ("seconds", float)):
        arguments.add_argument(name, type=kind)
    chosen = arguments.parse_args()
    server = Running(None, chosen.host, chosen.port)  # type: ignore[arg-type]
    reads, writes, end = Answers(), Answers(), perf_counter() + chosen.seconds

    def repeat(answers: Answers, label: str) -> None:
        connection = server.connect()
        for number in count():
            begin = perf_counter()
            if begin > end:
                return
            try:
                if answers is reads:
                    _read(server, number, connection)
                else:
                    params = {"name": f"{label}-{number}"}
                    path = "/graphs/people/mutate"
                    ask(connection, "POST", path, query=WRITE, params=params)
            except (OSError, HTTPException):
                answers.failed += 1
                connection.close()
                continue
            answers.took.append(perf_counter() - begin)

    threads = [threading.Thread(target=repeat, args=(reads, "")) for _ in range(READERS)]
    for number in range(WRITERS):
        label = f"new-{chosen.port}-{chosen.client}-{number}"
        threads.append(threading.Thread(target=repeat, args=(writes, label)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"reads": asdict(reads), "writes": asdict(writes)}))


if __name__ == "__main__":
    main()
