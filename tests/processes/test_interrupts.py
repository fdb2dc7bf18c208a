"""Ctrl-C while a query reads: a real signal, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow as pa

import omnigraph as og

# A thread sends the signal while the main thread reads a column. The main thread reads for as
# long as nothing happens, so the signal always finds it at work.
INTERRUPTED = dedent("""
    import os, signal, sys, threading
    import omnigraph as og

    # Whoever starts us in the background lets us ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_ident()

    def reads(frame):
        while frame is not None:
            if frame.f_code.co_name == "_stored_column":
                return True
            frame = frame.f_back
        return False

    def send():
        while not reads(sys._current_frames()[main]):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    def read():
        while True:
            with og.open("g.omni", "r") as graph:
                graph.query(sys.argv[2])

    outcomes = []
    for _ in range(int(sys.argv[1])):
        sender = threading.Thread(target=send)
        try:
            sender.start()
            read()
        except BaseException as error:
            outcomes.append(type(error).__name__)
        sender.join()
    print(*outcomes)
""")
QUERY = 'query q() { match { $d: Doc  $d.body contains "7 x" } return { count($d) as n } }'


def test_an_interrupt_during_a_scan_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", schema="node Doc { slug: String @key  body: String }")
    slugs = [f"doc-{number}" for number in range(40_000)]
    bodies = [f"{number} x " * 100 for number in range(40_000)]
    graph.load({"Doc": pa.table({"slug": slugs, "body": bodies})}, engine="inprocess")
    graph.close()
    answer = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "10", QUERY],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=dict(os.environ),
        check=False,
    )
    assert answer.stdout.split() == ["KeyboardInterrupt"] * 10, answer.stdout + answer.stderr
