"""A graph behind a server has the calls of an embedded one, with the same names of arguments."""

from __future__ import annotations

import inspect
import re

import pytest

import omnigraph as og
from omnigraph.client.history import RemoteBranches, RemoteChanges, RemoteCommits, RemoteTags
from omnigraph.client.remote_diff import RemoteDiff
from omnigraph.client.remote_graph import RemoteGraph, RemoteSnapshot
from omnigraph.client.remote_maintenance import RemoteProfile
from omnigraph.client.remote_schema import RemoteSchema
from omnigraph.client.remote_transaction import RemoteTransaction
from omnigraph.client.rows import RemoteRows
from omnigraph.exec.read.profile import Profile
from omnigraph.graph.schema import Schema
from omnigraph.graph.versioning.branches import Branches
from omnigraph.graph.versioning.changes import ChangeFeed
from omnigraph.graph.versioning.commits import Commits
from omnigraph.graph.versioning.diff import Diff
from omnigraph.graph.versioning.tags import Tags

PAIRS = [
    (og.Graph, RemoteGraph),
    (og.Snapshot, RemoteSnapshot),
    (og.Transaction, RemoteTransaction),
    (og.Rows, RemoteRows),
    (Profile, RemoteProfile),
    (Branches, RemoteBranches),
    (Tags, RemoteTags),
    (Commits, RemoteCommits),
    (Diff, RemoteDiff),
    (ChangeFeed, RemoteChanges),
    (Schema, RemoteSchema),
]
# Calls that a server has no use for, or that reach into storage.
MISSING = {
    "Snapshot": {"pinned"},
    "Rows": {"settled", "to_spark"},
    "Profile": {"add", "restart", "ticks"},
    "Diff": {"batches", "newer_state", "newer_state_batches", "to_arrow"},
    "Schema": {"drift"},
}
# Arguments that the server decides, or that belong to this process.
LOCAL = {"actor", "cancel", "timeout"}


def calls(kind: type) -> dict[str, inspect.Signature | None]:
    """The public names of a class, each with its signature if it is called."""
    found: dict[str, inspect.Signature | None] = {}
    for name in dir(kind):
        if not name.startswith("_"):
            value = inspect.getattr_static(kind, name)
            found[name] = inspect.signature(value) if inspect.isfunction(value) else None
    for name in getattr(kind, "__annotations__", {}):
        found.setdefault(name, None)
    return found


def attributes(kind: type) -> set[str]:
    """The names that a class gives to its objects."""
    source = inspect.getsource(kind).replace(" ", "")
    return set(re.findall(r"^self\.([a-z]\w*)[:=]", source, re.MULTILINE))


@pytest.mark.parametrize(("embedded", "remote"), PAIRS, ids=lambda kind: str(kind.__name__))
def test_every_call_is_there(embedded: type, remote: type) -> None:
    here = {*calls(embedded), *attributes(embedded)}
    there = {*calls(remote), *attributes(remote)}
    wanted = {name for name in here if name.isidentifier() and not name.startswith("_")}
    assert wanted - there == MISSING.get(embedded.__name__, set())


@pytest.mark.parametrize(("embedded", "remote"), PAIRS, ids=lambda kind: str(kind.__name__))
def test_every_argument_is_taken(embedded: type, remote: type) -> None:
    there = calls(remote)
    lacking = {}
    for name, signature in calls(embedded).items():
        other = there.get(name)
        if signature is None or other is None:
            continue
        names = set(signature.parameters) - set(other.parameters)
        # Arguments of embedded graphs come together, and are refused by name.
        if any(each.kind is each.VAR_KEYWORD for each in other.parameters.values()):
            names = set()
        names -= LOCAL
        if names:
            lacking[name] = names
    assert lacking == {}


@pytest.mark.parametrize(("embedded", "remote"), PAIRS, ids=lambda kind: str(kind.__name__))
def test_arguments_that_both_have_have_one_default(embedded: type, remote: type) -> None:
    there = calls(remote)
    different = {}
    for name, signature in calls(embedded).items():
        other = there.get(name)
        for argument, here in signature.parameters.items() if signature and other else ():
            found = other.parameters.get(argument) if other else None
            if found is not None and (found.default, found.kind) != (here.default, here.kind):
                different[name, argument] = (here, found)
    assert different == {}


def test_what_needs_the_store_says_so() -> None:
    for name in ("copy_to", "to_spark", "vertices", "edges", "stream_sink", "acting_as"):
        with pytest.raises(og.errors.InvalidInput, match=f"`{name}` works where a graph is stored"):
            getattr(RemoteGraph, name)(None, "x")
