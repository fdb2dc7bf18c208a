"""The table gateway, on local disk and S3: calls that are refused, and replies that get lost."""

import pytest

from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Fault, LostReply, Refuse
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.tables import Pin, Tables
from tests.conformance.racing import PEOPLE, people
from tests.conformance.table_steps import ids, made, rewritten


@pytest.mark.parametrize("at", [StorageCall.TABLE_COMMIT, StorageCall.TABLE_PLACE])
def test_a_lost_reply_of_a_landing_is_recognised(tables: Tables, at: StorageCall) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    staged = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("b"), uuid="u"))
    with failpoints.armed({at: LostReply()}):
        assert tables.land(staged) == 2
    assert ids(tables, Pin("t", 2)) == ["a", "b"]


@pytest.mark.parametrize("at", [StorageCall.TABLE_COMMIT, StorageCall.TABLE_PLACE])
def test_a_refused_landing_can_be_tried_again(tables: Tables, at: StorageCall) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    staged = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("b"), uuid="u"))
    with failpoints.armed({at: Refuse()}), pytest.raises(StorageFailure) as caught:
        tables.land(staged)
    assert not caught.value.effect_free
    assert tables.head("t") == 1
    assert tables.land(staged) == 2


@pytest.mark.parametrize("fault", [Refuse(), LostReply()], ids=["refuse", "lost reply"])
def test_the_nth_call_may_fail(tables: Tables, fault: Fault) -> None:
    """Whatever call of a write fails: the table is as before or has the change, once."""
    tables.create("t", PEOPLE, rows=people("a", "b"))
    pin = Pin("t", 1)
    for nth in range(1, 100):
        failed = False
        with failpoints.armed(dict.fromkeys(StorageCall, fault), nth=nth) as armed:
            try:
                table = tables.open(pin)
                updates = rewritten(table, "a", v=nth)
                staged = tables.stage(
                    table, inserts=people(f"n{nth}"), updates=updates, uuid=f"u{nth}"
                )
                tables.land(made(staged))
            except StorageFailure:
                failed = True
        head = tables.head("t")
        assert head in {pin.version, pin.version + 1}
        assert failed or head == pin.version + 1
        rows = {row["id"]: row["v"] for row in tables.open(Pin("t", head)).read().to_pylist()}
        if head > pin.version:
            assert rows["a"] == nth
            assert rows[f"n{nth}"] == 0
        assert tables.open(Pin("t", head)).row_count == len(rows)
        pin = Pin("t", head)
        if armed.fired is None:
            break
    else:
        pytest.fail("a write never ends")
    assert nth > 5


def test_a_lost_reply_of_a_creation_is_recognised(tables: Tables) -> None:
    with failpoints.armed({StorageCall.TABLE_CREATE: LostReply()}):
        assert tables.create("t", PEOPLE, rows=people("a")) == 1
    assert ids(tables, Pin("t", 1)) == ["a"]


def test_a_refused_creation_can_be_tried_again(tables: Tables) -> None:
    with failpoints.armed({StorageCall.TABLE_CREATE: Refuse()}), pytest.raises(StorageFailure):
        tables.create("t", PEOPLE)
    assert not tables.exists("t")
    assert tables.create("t", PEOPLE) == 1
