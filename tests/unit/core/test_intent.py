from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.core.commits.records import TableRecord, TombstoneRecord, VersionRecord
from omnigraph.core.commits.target import NewBranch
from omnigraph.core.journal.intent import Intent, IntentLog, WriterKind, decode, encode
from omnigraph.core.layout import intent_path
from omnigraph.errors import Code, Corrupt
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName, CommitId
from tests.object_layers import FaultyObjects
from tests.unit.core.intents import an_intent, planned

PLACE = "__recovery/x.json"
COMMIT = CommitId("01M7GKJCZJ0MNFW8WQN7KP2QZV")


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> ObjectStore:
    return open_objects(Root.parse(f"memory:///{request.node.name}"))


def full_intent() -> Intent:
    return an_intent(
        kind=WriterKind.SCHEMA_APPLY,
        branch=BranchName("dev/x"),
        incarnation="3:abc",
        merged_parent_id=COMMIT,
        actor="me",
        idempotency_key="key",
        schema_digest="other",
        head=COMMIT,
        judged={"node:A": 4},
        tables=(planned("t", uuids=("a", "b"), confirmed=7), planned("u")),
        records=(
            TableRecord(table_key="node:N", location="nodes/n"),
            VersionRecord(
                table_key="node:N", location="nodes/n", version=1, table_branch=None, row_count=0
            ),
            TombstoneRecord(table_key="node:O", location="nodes/o", version=9),
        ),
        confirms=True,
        details={"note": [1, None, "é"]},
    )


def creation(operation_id: str = "01M7H56QJVA6EK7K581PJCXMKR", **values: Any) -> Intent:
    target = NewBranch(
        branch=BranchName("dev"),
        operation_id=operation_id,
        source=BranchName("a/b"),
        source_incarnation="3:abc",
        source_version=9,
    )
    chosen = {"operation_id": operation_id, "branch": target.branch, "target": target}
    return an_intent(**{**chosen, **values})


@pytest.mark.parametrize("intent", [an_intent(), full_intent(), creation(), creation(tables=())])
def test_an_intent_survives_its_file(intent: Intent) -> None:
    assert decode(encode(intent), PLACE) == intent


def test_the_file_names_what_an_operator_looks_for() -> None:
    plain = json.loads(encode(an_intent(tables=(planned("t", uuids=("a", "b")),))))
    assert plain["tables"][0]["expected_version"] == 5
    assert plain["tables"][0]["post_commit_pin"] == 7
    assert plain["tables"][0]["transaction_uuids"] == ["a", "b"]


def changed(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda plain: plain.update(values)


def in_table(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda plain: plain["tables"][0].update(values)


@pytest.mark.parametrize(
    "damage",
    [
        changed(format=2),
        changed(kind="unheard-of"),
        changed(branch="__reserved"),
        changed(commit_id="short"),
        changed(rollback_commit_id=None),
        changed(judged=[1]),
        changed(created_at="noon"),
        changed(owner=None),
        changed(owner={}),
        changed(tables=None),
        changed(tables=[{}]),
        changed(records=[{"object_id": "x", "object_type": "unheard-of"}]),
        changed(records=[{"object_id": 1}]),
        changed(actor=3),
        in_table(transaction_uuids=[]),
        in_table(transaction_uuids=[None]),
        in_table(post_commit_pin=9),
        in_table(expected_version=None),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(
    damage: Callable[[dict[str, Any]], None],
) -> None:
    plain = json.loads(encode(an_intent()))
    damage(plain)
    with pytest.raises(Corrupt) as caught:
        decode(json.dumps(plain).encode(), PLACE)
    assert caught.value.code is Code.INTENT_UNREADABLE
    assert caught.value.details == {"path": PLACE}
    assert PLACE in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"null"])
def test_bytes_that_are_no_intent_are_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(data, PLACE)


def test_a_torn_file_is_refused_wherever_it_is_torn() -> None:
    data = encode(full_intent())
    for length in range(0, len(data), 7):
        with pytest.raises(Corrupt):
            decode(data[:length], PLACE)


def test_who_makes_a_branch_rivals_only_with_who_writes_to_that_very_one() -> None:
    here = BranchName("dev")
    mine = creation("1", idempotency_key="k")
    for other in (
        creation("2", idempotency_key="k"),
        an_intent(branch=here, incarnation="3:abc", idempotency_key="k"),
    ):
        assert not mine.rivals(other)
        assert not other.rivals(mine)
    late = an_intent(branch=here, incarnation="born:1")
    assert mine.rivals(late)
    assert late.rivals(mine)


def test_rivals_share_a_table_or_a_key_on_one_branch() -> None:
    mine = an_intent(tables=(planned("t"), planned("u")), idempotency_key="k")
    assert not mine.rivals(mine)
    assert mine.rivals(an_intent(tables=(planned("u"),)))
    assert not mine.rivals(an_intent(tables=(planned("v"),)))
    assert mine.rivals(an_intent(tables=(planned("v"),), idempotency_key="k"))
    assert not mine.rivals(an_intent(tables=(planned("v"),), idempotency_key="other"))
    assert not mine.rivals(an_intent(branch=BranchName("dev"), idempotency_key="k"))
    assert not an_intent().rivals(an_intent(tables=(planned("v"),)))


def test_confirming_notes_the_versions() -> None:
    intent = an_intent(tables=(planned("t"), planned("u")))
    confirmed = intent.confirm({"t": 6, "u": 8})
    assert [item.confirmed for item in confirmed.tables] == [6, 8]
    assert [item.confirmed for item in intent.tables] == [None, None]


def test_the_log_keeps_replaces_and_forgets(objects: ObjectStore) -> None:
    log = IntentLog(objects)
    first, second = an_intent(), an_intent()
    log.put(second)
    log.put(first)
    assert log.pending() == (first, second)
    with pytest.raises(StorageFailure) as caught:
        log.put(first)
    assert caught.value.kind is FailureKind.EXISTS
    log.replace(first.confirm({"t": 6}))
    assert log.get(first.operation_id) == first.confirm({"t": 6})
    log.remove(first.operation_id)
    log.remove(first.operation_id)
    assert log.get(first.operation_id) is None
    assert log.pending() == (second,)


def test_an_unreadable_intent_is_kept_and_hides_no_other(objects: ObjectStore) -> None:
    log = IntentLog(objects)
    good = an_intent()
    log.put(good)
    bad = intent_path("0BAD")
    objects.put(bad, b"{")
    objects.put("__recovery/notes.txt", b"not an intent")
    found = log.scan()
    assert found.intents == (good,)
    assert [error.details["path"] for error in found.unreadable] == [bad]
    with pytest.raises(Corrupt):
        log.pending()
    assert objects.get(bad) == b"{"


def test_a_failing_list_is_loud(objects: ObjectStore) -> None:
    log = IntentLog(FaultyObjects(objects, Refuse()))
    with pytest.raises(StorageFailure):
        log.scan()


def test_a_lost_reply_of_the_put_leaves_the_intent(objects: ObjectStore) -> None:
    intent = an_intent()
    with pytest.raises(StorageFailure):
        IntentLog(FaultyObjects(objects, LostReply())).put(intent)
    assert IntentLog(objects).pending() == (intent,)


def test_touching_is_by_branch_and_table() -> None:
    intent = an_intent(tables=(planned("t"),))
    assert intent.touches(MAIN, ["t", "u"])
    assert not intent.touches(MAIN, ["u"])
    assert not intent.touches(BranchName("dev"), ["t"])
