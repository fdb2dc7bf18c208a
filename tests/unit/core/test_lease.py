"""The lease of a write is kept while its writer works, and not once it has run out."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.core import tuning
from omnigraph.core.journal.intent import Intent, IntentLog
from omnigraph.core.journal.lease import Lease
from omnigraph.errors import RecoveryRequired
from omnigraph.runtime.clock import ManualClock
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from tests.unit.core.intents import NOW, an_intent

LEASE_US = tuning.active.writer_lease_us

_POLL_S = 0.01


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(tmp_path: Path) -> IntentLog:
    return IntentLog(open_objects(Root.parse(str(tmp_path))))


@pytest.fixture
def lease(log: IntentLog, clock: ManualClock) -> Lease:
    intent = an_intent()
    log.replace(intent)
    return Lease(log, clock, intent, clock.ticks_ns())


def stored(log: IntentLog, lease: Lease) -> Intent:
    found = log.get(lease.intent.operation_id)
    assert found is not None
    return found


def test_a_lease_is_renewed_once_half_of_it_is_over(
    log: IntentLog, lease: Lease, clock: ManualClock
) -> None:
    before = stored(log, lease)
    clock.advance(LEASE_US // 2 - 1)
    lease.keep()
    assert stored(log, lease) == before
    clock.advance(1)
    lease.keep()
    owner = before.owner.renewed(NOW + LEASE_US // 2)
    assert stored(log, lease) == lease.intent == replace(before, owner=owner)


def test_work_that_takes_longer_than_a_lease_keeps_it(
    log: IntentLog, lease: Lease, clock: ManualClock
) -> None:
    with lease.kept():
        for _ in range(3):
            before = lease.renewed_ns
            clock.advance(LEASE_US // 2)
            while lease.renewed_ns == before:
                threading.Event().wait(_POLL_S)
            lease.check()
    assert stored(log, lease) == lease.intent
    assert lease.intent.owner.lease_until == NOW + LEASE_US // 2 * 3 + LEASE_US


def test_a_lease_that_has_run_out_is_not_renewed(
    log: IntentLog, lease: Lease, clock: ManualClock
) -> None:
    before = stored(log, lease)
    clock.advance(LEASE_US)
    with pytest.raises(RecoveryRequired, match="has run out"):
        lease.check()
    with pytest.raises(RecoveryRequired, match="has run out"):
        lease.keep()
    with lease.kept():
        pass
    assert stored(log, lease) == before
