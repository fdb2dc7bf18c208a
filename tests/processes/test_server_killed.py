"""A server that is killed under load: nothing that it acknowledged is lost."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import omnigraph as og
from omnigraph.errors import GraphError

WRITERS = 3
WRITES = 12
ADD = "query add($n: String) { insert Person { name: $n } }"


def start(place: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "omnigraph.cli.main", "serve", str(place)]
    server = subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    with server.stdout as output:
        line = output.readline()
    assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), line
    return server, "http://" + line.partition("=")[2].strip()


def test_nothing_acknowledged_is_lost_when_a_server_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "g.omni"
    og.init(place, "node Person { name: String @key }").close()
    server, url = start(place)
    acknowledged: list[str] = []
    enough = threading.Event()

    def write(number: int) -> None:
        with og.connect(url, graph="g", timeout=30) as graph:
            for count in range(WRITES):
                name = f"w{number}-{count}"
                try:
                    graph.mutate(ADD, {"n": name})
                except GraphError:
                    return
                acknowledged.append(name)
                if len(acknowledged) >= WRITES:
                    enough.set()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    assert enough.wait(200)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    for writer in writers:
        writer.join()
    again, url = start(place)
    try:
        with og.connect(url) as graph:
            rows = graph.query("query q() { match { $p: Person } return { $p.name as name } }")
            assert {row["name"] for row in rows} >= set(acknowledged)
            assert graph.mutate(ADD, {"n": "after"}).commit is not None
    finally:
        again.terminate()
        assert again.wait(60) == 0
