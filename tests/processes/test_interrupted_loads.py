"""An interrupt stops a load."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[og.Graph]:
    monkeypatch.chdir(tmp_path)
    with og.init("g.omni", SCHEMA, actor="tester") as graph:
        yield graph


INTERRUPTED = dedent("""
    import os, signal, sys
    import omnigraph as og

    def interrupt(moment):
        if moment.stage == "read" and moment.tasks_done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    # Whoever starts us in the background lets us ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph = og.open("g.omni")
    try:
        graph.load("many", progress=interrupt)
    except KeyboardInterrupt:
        assert graph.snapshot().counts["node:Person"] == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        graph.load({"Person": [{"name": "after"}]})
        print("stopped")
""")


def test_an_interrupt_stops_a_load_and_leaves_nothing(graph: og.Graph) -> None:
    folder = Path("many")
    folder.mkdir()
    for file in range(8):
        lines = (f'{{"type": "Person", "data": {{"name": "{file}-{n}"}}}}\n' for n in range(2000))
        (folder / f"{file}.jsonl").write_text("".join(lines))
    answer = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=200,
        env=dict(os.environ),
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, "stopped\n"), answer.stderr
    assert graph.snapshot().counts["node:Person"] == 1
    staged = Path("g.omni/__staging")
    assert not staged.exists() or not list(staged.iterdir())
