"""Measures, judges and publishes: small reads, traffic, large bodies, and a server that dies."""

from __future__ import annotations

import statistics
import tempfile
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import perf_counter, process_time

import omnigraph as og
from bench import report
from bench.figure import Figure, head, publish, table
from bench.server.bodies import Moved, moved
from bench.server.running import ask, running
from bench.server.traffic import PEOPLE, READ, SECONDS, WRITE, Traffic, busy
from omnigraph.client.transport import Connection
from omnigraph.errors import JsonValue

SCHEMA = "node Person { name: String @key  age: I32? }"
_MEMORY_MAX = 300 << 20
_ROUNDS = 7


def run(scale: float) -> JsonValue:
    """Measure everything; `scale` below 1 does less of it."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        folder = Path(name)
        place = folder / "people.omni"
        with og.init(place, SCHEMA) as graph:
            graph.load({"Person": [{"name": f"p{n}", "age": n % 90} for n in range(PEOPLE)]})
        small = _small_reads(place, folder, max(50, int(2_000 * scale)))
        seconds = max(2.0, SECONDS * scale)
        traffic = [busy(place, workers, seconds, folder / "log") for workers in (1, 2)]
        bodies = moved(folder, max(1_000, int(1_000_000 * scale)))
        killed = _killed(place, folder, max(20, int(200 * scale)))
    figures = [*small, *(_body(each) for each in bodies)]
    text = "\n".join([*_page(scale, seconds, figures, traffic, bodies), *killed, ""])
    return publish("server", text, figures, scale)


def _small_reads(place: Path, folder: Path, count: int) -> list[Figure]:
    """One row by its key: by the engine in this process, and by the server, in turns.

    A server whose client sends a body after the headers is woken up twice. Ours does not, and has
    to keep the target; the standard library does.
    """
    bare: list[tuple[float, float]] = []
    served: list[tuple[float, float]] = []
    apart: list[tuple[float, float]] = []
    with og.open(place) as graph, running(place, log=folder / "log") as server:
        ours, other = Connection(server.host, server.port), server.connect()

        def engine(number: int) -> None:
            # With its values, which are read only when somebody asks for them.
            list(graph.query(READ, {"name": f"p{number * 7919 % PEOPLE}"}))

        def remote(connection: HTTPConnection, number: int) -> None:
            params = {"name": f"p{number * 7919 % PEOPLE}"}
            ask(connection, "POST", "/graphs/people/query", query=READ, params=params)

        for number in range(200):
            engine(number)
            remote(ours, number)
            remote(other, number)
        for _ in range(_ROUNDS):
            cpu, begin = process_time(), perf_counter()
            for number in range(count):
                engine(number)
            bare.append(((process_time() - cpu) / count, (perf_counter() - begin) / count))
            for connection, found in ((ours, served), (other, apart)):
                cpu, begin = server.cpu, perf_counter()
                for number in range(count):
                    remote(connection, number)
                found.append(((server.cpu - cpu) / count, (perf_counter() - begin) / count))
        ours.close()
        other.close()
    first = _median("small read, the engine alone", bare)
    second = _median("small read, through the server", served)
    third = _median("the same, headers and body sent apart", apart)
    most = 2 * first.cpu + 200e-6
    target = f"<= {report.duration(most * 1e6)} (2x and 200 us)"
    return [
        first,
        Figure(
            name=second.name,
            cpu=second.cpu,
            wall=second.wall,
            against=first.name,
            ratio=second.cpu / first.cpu,
            target=target,
            is_met=second.cpu <= most,
        ),
        Figure(
            name=third.name,
            cpu=third.cpu,
            wall=third.wall,
            against=first.name,
            ratio=third.cpu / first.cpu,
        ),
    ]


def _median(name: str, rounds: list[tuple[float, float]]) -> Figure:
    cpu, wall = (statistics.median(each[place] for each in rounds) for place in (0, 1))
    return Figure(name=name, cpu=cpu, wall=wall)


def _body(each: Moved) -> Figure:
    return Figure(
        name=f"{each.name}, {each.bytes / 1e6:,.0f} MB: {each.peak >> 20} MB at most",
        cpu=each.cpu,
        wall=each.seconds,
        target="< 300 MB",
        is_met=each.peak < _MEMORY_MAX,
    )


def _killed(place: Path, folder: Path, writes: int) -> list[str]:
    """Kill the server between writes that are under way, start it again, and look for each."""
    done: list[str] = []
    with running(place, "--workers", "2", log=folder / "log") as server:

        def write(label: str) -> None:
            connection = server.connect()
            for number in range(writes // 4):
                name = f"kept-{label}-{number}"
                try:
                    ask(
                        connection,
                        "POST",
                        "/graphs/people/mutate",
                        query=WRITE,
                        params={"name": name},
                    )
                except (OSError, HTTPException):
                    return
                done.append(name)

        threads = [threading.Thread(target=write, args=(f"{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        pause = threading.Event()
        while len(done) < writes // 2 and any(thread.is_alive() for thread in threads):
            pause.wait(0.01)
        server.kill()
        for thread in threads:
            thread.join()
    with running(place, "--workers", "2", log=folder / "log") as server:
        connection = server.connect()
        lost = 0
        for name in done:
            found = ask(
                connection, "POST", "/graphs/people/query", query=READ, params={"name": name}
            )
            lost += found["row_count"] != 1
        connection.close()
    return [
        "",
        f"Four writers were to make {writes} writes when both processes of the server and the one "
        f"that watches them were killed: {len(done)} had been acknowledged, {lost} of these were "
        "lost.",
    ]


def _page(
    scale: float, seconds: float, figures: list[Figure], traffic: list[Traffic], bodies: list[Moved]
) -> list[str]:
    lines = [
        *head("The server, measured", "server", scale),
        "Server and clients share the machine, over loopback. A small read finds one of "
        f"{PEOPLE:,} entities by its key; figures are per request, processor time is that of the "
        "server. Of a large body, memory is what all processes of the server hold themselves, and "
        "the temporary files of an upload lie on disk; the code of its libraries, mapped from "
        f"files, is {bodies[0].mapped >> 20} MB more.",
        "",
        *table(figures),
        "",
        f"Eight readers and two writers at once, from two processes, for {seconds:g} seconds:",
        "",
        "| processes | requests/s | read p50 | p99 | write p50 | p99 | answered | failed "
        "| processor per request |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in traffic:
        count = len(each.reads.took) + len(each.writes.took)
        ranks = [
            report.duration(answers.of_rank(share) * 1e6)
            for answers in (each.reads, each.writes)
            for share in (0.5, 0.99)
        ]
        failed = each.reads.failed + each.writes.failed
        cells = [str(each.workers), f"{each.per_second:,.0f}", *ranks, f"{count:,}", str(failed)]
        cells.append(report.duration(each.cpu / count * 1e6))
        lines.append(f"| {' | '.join(cells)} |")
    return lines
