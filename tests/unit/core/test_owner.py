from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.core import tuning
from omnigraph.core.locks.liveness import LiveOperations
from omnigraph.core.locks.owner import Owner, this_process

NOW = 1_700_000_000_000_000


def test_this_process_is_us_and_runs() -> None:
    owner = this_process(NOW)
    assert owner.is_us()
    assert owner.is_here
    assert owner.runs()


def test_an_owner_survives_json() -> None:
    owner = this_process(NOW, lease_us=7)
    assert Owner.from_json(owner.to_json()) == owner


def test_an_owner_of_an_earlier_release_has_the_usual_lease() -> None:
    plain = this_process(NOW).to_json()
    del plain["lease_us"]
    assert Owner.from_json(plain).lease_us == tuning.active.writer_lease_us


def test_a_number_that_was_given_to_another_process_is_not_its_owner() -> None:
    assert not replace(this_process(NOW), started="1").runs()


def test_a_lease_is_released_and_renewed() -> None:
    owner = this_process(NOW, lease_us=5)
    assert not owner.is_released
    assert owner.released().is_released
    assert owner.renewed(NOW + 3).lease_until == NOW + 8


def test_an_operation_is_live_for_the_length_of_its_block() -> None:
    live = LiveOperations()

    def work() -> None:
        with live.working("a"):
            assert live.holds("a")
            assert not live.holds("b")
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert not live.holds("a")
