"""A publish that was cut off before its sync is synced before it counts."""

from pathlib import Path

from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.calls import StorageCall
from omnigraph.store.root import Root
from tests.graphs import PERSON, make, people, write


def test_a_failed_sync_of_the_manifest_is_made_up_for(tmp_path: Path) -> None:
    engine = make(Root.parse(str(tmp_path / "g")), durable=True)
    with telemetry.counting() as smooth:
        write(engine, {PERSON: people("a")})
    syncs = smooth.snapshot()[StorageCall.TABLE_SYNC.value]
    with (
        telemetry.counting() as rough,
        armed({StorageCall.TABLE_SYNC: Refuse()}, nth=syncs) as plan,
    ):
        published = write(engine, {PERSON: people("b")})
    assert plan.fired is StorageCall.TABLE_SYNC
    assert published.commit.id == engine.snapshot().head
    assert rough.snapshot()[StorageCall.TABLE_SYNC.value] == syncs + 1
