"""A publish is named only when its content is durable; one whose reply is lost is synced again."""

from pathlib import Path

import pytest

from omnigraph.errors import RecoveryRequired
from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import LostReply, Refuse, armed
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from tests.graphs import PERSON, ids, make, people, reopen, write

PLACE, SYNC = StorageCall.TABLE_PLACE, StorageCall.TABLE_SYNC


def test_a_lost_reply_of_the_manifest_is_made_up_for(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "g")), durable=True)
    with telemetry.counting() as smooth:
        write(repo, {PERSON: people("a")})
    places, syncs = (smooth.snapshot()[call.value] for call in (PLACE, SYNC))
    assert places == 2, "the table, then the manifest"
    with telemetry.counting() as rough, armed({PLACE: LostReply()}, nth=places) as plan:
        published = write(repo, {PERSON: people("b")})
    assert plan.fired is PLACE
    assert published.commit.id == repo.snapshot().head
    assert rough.snapshot()[SYNC.value] == syncs + 1


def test_what_could_not_be_synced_is_not_published(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "g"))
    repo = make(root, durable=True)
    with telemetry.counting() as smooth:
        write(repo, {PERSON: people("a")})
    syncs = smooth.snapshot()[SYNC.value]
    before = repo.snapshot()
    with armed({SYNC: Refuse()}, nth=syncs) as plan, pytest.raises(RecoveryRequired):
        write(repo, {PERSON: people("b")})
    assert plan.fired is SYNC
    assert repo.snapshot() == before
    assert ids(reopen(root), PERSON) == {"a", "b"}, "whoever opens the graph finishes it"
