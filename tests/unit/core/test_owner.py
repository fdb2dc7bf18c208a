from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from omnigraph.core.recovery.live import Live
from omnigraph.core.recovery.owner import GRACE_US, LEASE_US, Owner, this_process

NOW = 1_700_000_000_000_000
LATER = NOW + 100 * (LEASE_US + GRACE_US)
CHILD = """
import sys
from omnigraph.core.recovery.owner import this_process
import json
print(json.dumps(this_process(int(sys.argv[1])).to_json()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere() -> Owner:
    return replace(this_process(NOW), machine="another/machine/")


def test_this_process_is_us_and_alive_however_late_it_is() -> None:
    owner = this_process(NOW)
    assert owner.is_us()
    assert owner.is_alive(LATER)


def test_an_owner_survives_json() -> None:
    owner = this_process(NOW)
    assert Owner.from_json(owner.to_json()) == owner


def test_a_number_that_was_given_to_another_process_is_not_its_owner() -> None:
    assert not replace(this_process(NOW), started="1").is_alive(NOW)


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
        assert owner.is_alive(LATER)
        child.kill()
        # Not reaped yet: a zombie does no more work than a process that is gone.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not owner.is_alive(NOW)
    assert not owner.is_alive(NOW)


def test_elsewhere_the_lease_decides_and_a_grace_after_it(elsewhere: Owner) -> None:
    assert not elsewhere.is_us()
    assert elsewhere.is_alive(NOW + LEASE_US)
    assert elsewhere.is_alive(NOW + LEASE_US + GRACE_US - 1)
    assert not elsewhere.is_alive(NOW + LEASE_US + GRACE_US)


def test_an_owner_stops_acting_before_others_may_take_over(elsewhere: Owner) -> None:
    assert elsewhere.may_act(NOW + LEASE_US - 1)
    assert not elsewhere.may_act(NOW + LEASE_US)
    assert elsewhere.is_alive(NOW + LEASE_US)


def test_a_lease_is_prolonged_in_its_second_half() -> None:
    owner = this_process(NOW)
    assert not owner.is_due(NOW + LEASE_US // 2 - 1)
    assert owner.is_due(NOW + LEASE_US // 2)
    later = owner.prolonged(NOW + LEASE_US // 2)
    assert later.may_act(NOW + LEASE_US)
    assert not later.is_due(NOW + LEASE_US // 2)


def test_whoever_releases_is_not_waited_for(elsewhere: Owner) -> None:
    assert not this_process(NOW).released().is_alive(NOW)
    assert not elsewhere.released().is_alive(NOW)


def test_an_operation_is_live_for_the_length_of_its_block() -> None:
    live = Live()

    def work() -> None:
        with live.working("a"):
            assert live.holds("a")
            assert not live.holds("b")
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert not live.holds("a")
