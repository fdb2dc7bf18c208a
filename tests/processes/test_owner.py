"""The owner of an intent in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from omnigraph.core.locks.owner import Owner

NOW = 1_700_000_000_000_000


CHILD = """
import sys
from omnigraph.core.locks.owner import this_process
import json
print(json.dumps(this_process(int(sys.argv[1])).to_json()), flush=True)
sys.stdin.read()
"""


def test_a_process_is_alive_until_it_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(NOW)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        owner = Owner.from_json(json.loads(child.stdout.readline()))
        assert owner.process == child.pid
        assert not owner.is_us()
        assert owner.runs()
        child.kill()
        # Not reaped yet: a zombie does no more work than a process that is gone.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not owner.runs()
    assert not owner.runs()
