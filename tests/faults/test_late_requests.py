"""Requests to a real S3 server that are applied when their client is gone.

The client was told of a failure, ran into its timeout, or was killed. Others settle what it left
and go on; then the request arrives. It must be refused, or change nothing that anybody relies on.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import pytest

from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.layout import MANIFEST
from omnigraph.core.recovery.settlement import Settled
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.root import Root
from tests.conformance.seaweed import BUCKET
from tests.faults import worlds
from tests.faults.harness import children, kinds
from tests.faults.late import Ending, attempt
from tests.faults.slow_server import Choice, Request, SlowServer, put_of
from tests.faults.worlds import COMPANY, KNOWS, PERSON

IDS = UlidIds()
REFUSED = {HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT}


@dataclass(frozen=True, slots=True)
class Place:
    """One graph on S3: the way to it, and the way through the proxy."""

    near: Root
    slow: Root


@pytest.fixture
def place(s3_options: dict[str, str], server: SlowServer) -> Place:
    made = new_place(s3_options, server)
    worlds.make(made.near)
    return made


def new_place(options: dict[str, str], server: SlowServer, **more: str) -> Place:
    uri = f"s3://{BUCKET}/{IDS.new()}"
    through = {**options, "aws_endpoint": server.endpoint, **more}
    return Place(Root.parse(uri, options), Root.parse(uri, through))


def version_of(root: Root, table_key: str) -> Choice:
    """Choose puts of a version of a table under its final name."""
    path = MANIFEST if table_key == MANIFEST else worlds.attach(root).snapshot().pin(table_key).path
    chosen = put_of(f"{root.prefix}/{path}/_versions/")

    def choose(request: Request) -> bool:
        return chosen(request) and request.path.endswith(".manifest")

    return choose


def rows_for(name: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys((PERSON, COMPANY, KNOWS), (name,))


@pytest.mark.parametrize("table", [PERSON, MANIFEST], ids=["table", "manifest"])
def test_a_version_that_is_applied_after_its_write_was_settled_is_refused(
    place: Place, server: SlowServer, table: str
) -> None:
    with server.keeping_back(version_of(place.near, table)) as kept:
        outcome = attempt(place.slow, "write")
    assert outcome.ending is Ending.UNKNOWN
    other = worlds.attach(place.near)
    lands = table == MANIFEST  # all tables have landed: the write is finished by others
    (settled,) = other.recover()
    assert settled.settled is (Settled.ROLLED_FORWARD if lands else Settled.ROLLED_BACK)
    worlds.add(other, rows_for("ours"))
    assert kept.requests
    assert set(kept.deliver()) <= REFUSED
    repo = worlds.open_world(place.near)
    people = worlds.rows_of(repo, PERSON)
    assert people == {"p0", "p1", "ours", *({"late"} if lands else ())}
    assert kinds(repo) == [RecoveryKind.ROLLED_FORWARD if lands else RecoveryKind.ROLLED_BACK]
    worlds.add(repo, rows_for("next"))
    worlds.assert_in_order(repo)


def act(place: Root, action: str) -> None:
    """Do something until killed. Runs in a child."""
    attempt(place, action)


@pytest.mark.deep
@pytest.mark.parametrize("table", [PERSON, KNOWS, MANIFEST], ids=["first", "second", "manifest"])
def test_a_version_whose_writer_was_killed_while_it_waited_is_refused(
    place: Place, server: SlowServer, table: str
) -> None:
    child = children.Process(target=act, args=(place.slow, "write"))
    with server.keeping_back(version_of(place.near, table), silent=True) as kept:
        child.start()
        kept.wait()
        child.kill()
        child.join()
    repo = worlds.open_world(place.near)
    worlds.add(repo, rows_for("ours"))
    assert set(kept.deliver()) <= REFUSED
    assert {"p0", "p1", "ours"} <= worlds.rows_of(repo, PERSON)
    repo = worlds.open_world(place.near)
    worlds.add(repo, rows_for("next"))
    worlds.assert_in_order(repo)


@pytest.mark.deep
def test_a_version_whose_writer_ran_into_its_timeout_is_refused(
    s3_options: dict[str, str], server: SlowServer
) -> None:
    place = new_place(s3_options, server, timeout="2s")
    worlds.make(place.near)
    with server.keeping_back(version_of(place.near, PERSON), silent=True) as kept:
        outcome = attempt(place.slow, "write")
    assert outcome.ending is Ending.UNKNOWN
    repo = worlds.open_world(place.near)
    worlds.add(repo, rows_for("ours"))
    assert set(kept.deliver()) <= REFUSED
    worlds.add(worlds.open_world(place.near), rows_for("next"))
    worlds.assert_in_order(worlds.open_world(place.near))
