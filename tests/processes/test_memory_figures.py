"""The memory of a child process, as the benchmarks measure it."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.load.processes import forget_peaks, usage

MIB = 1 << 20

# Takes memory, gives it back, and waits; twice.
TAKES_MEMORY = """
import sys
for _ in range(2):
    taken = b"x" * (64 << 20)
    del taken
    print(flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES_MEMORY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate()


def test_peaks_are_seen_and_forgotten(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    first = usage(child.pid)
    assert first.driver_bytes > 64 * MIB
    assert usage(os.getpid()).workers_bytes >= first.driver_bytes
    forget_peaks(child.pid)
    assert usage(child.pid).peak_bytes < 64 * MIB
    child.stdin.write("\n")
    child.stdin.flush()
    child.stdout.readline()
    again = usage(child.pid)
    assert again.peak_bytes > 64 * MIB
    assert again.cpu_seconds >= first.cpu_seconds
