"""Requirements: each holds or ends in its own conflict, and intents of every release keep them."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.requirements import (
    BranchAbsent,
    BranchIs,
    HeadIs,
    JudgedTableAt,
    Requirement,
    SchemaIs,
    TableAt,
    TargetState,
    check,
    from_json,
    requirement_of,
    to_json,
)
from omnigraph.core.commits.target import ExistingBranch, NewBranch, Target
from omnigraph.core.journal.intent import decode
from omnigraph.errors import Code, GraphError
from omnigraph.types import MAIN, BranchName, CommitId

HEAD, OTHER = CommitId("01M7GKJCZJ0MNFW8WQN7KP2QZV"), CommitId("01HF7YAT0072TECMQ4AJES02N3")
DEV = BranchName("dev")
PIN = TablePin(table_key="node:A", path="nodes/a", version=4, table_branch=None, row_count=1)
SEEN = TargetState(
    version=GraphVersion(
        branch=DEV,
        incarnation="3:abc",
        manifest_version=7,
        head=HEAD,
        schema_digest="digest",
        tables=MappingProxyType({"node:A": PIN}),
    ),
    names=lambda: (MAIN, BranchName("a/b")),
)


@pytest.mark.parametrize(
    ("holds", "broken", "code"),
    [
        (BranchIs(DEV, "3:abc"), BranchIs(DEV, "4:def"), Code.BRANCH_REPLACED),
        (BranchAbsent(DEV), BranchAbsent(BranchName("a/b")), Code.BRANCH_EXISTS),
        (BranchAbsent(BranchName("ab")), BranchAbsent(BranchName("a")), Code.BRANCH_EXISTS),
        (BranchAbsent(BranchName("a/c")), BranchAbsent(BranchName("a/b/c")), Code.BRANCH_EXISTS),
        (BranchAbsent(DEV), BranchAbsent(MAIN), Code.NAME_INVALID),
        (HeadIs(HEAD), HeadIs(OTHER), Code.PRECONDITION_FAILED),
        (SchemaIs("digest"), SchemaIs("other"), Code.SCHEMA_CHANGED),
        (TableAt("node:A", 4), TableAt("node:A", 3), Code.EXPECTED_VERSION_MISMATCH),
        (TableAt("node:A", 4), TableAt("node:B", 4), Code.EXPECTED_VERSION_MISMATCH),
        (JudgedTableAt("node:A", 4), JudgedTableAt("node:A", 5), Code.EXPECTED_VERSION_MISMATCH),
    ],
    ids=str,
)
def test_each_holds_or_ends_in_its_conflict(
    holds: Requirement, broken: Requirement, code: Code
) -> None:
    check([holds], SEEN)
    with pytest.raises(GraphError) as caught:
        check([holds, broken], SEEN)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "target",
    [
        ExistingBranch(branch=DEV, incarnation="3:abc"),
        NewBranch(
            branch=DEV,
            operation_id="op",
            source=MAIN,
            source_incarnation="main",
            source_version=3,
        ),
    ],
)
def test_they_survive_their_intent(target: Target) -> None:
    moved = (TableAt("node:A", 4), TableAt("node:B", 1))
    judged = (JudgedTableAt("node:C", 9),)
    for head in ((), (HeadIs(HEAD),)):
        requires = (requirement_of(target), *head, SchemaIs("digest"), *moved, *judged)
        plain = json.loads(json.dumps(to_json(requires)))
        assert from_json(plain, target, moved) == requires


# As 0.1 has stored it.
STORED = {
    "actor": "me",
    "branch": "dev",
    "commit_id": HEAD,
    "confirms": True,
    "created_at": 1700000000000000,
    "details": {"note": [1, None, "é"]},
    "format": 1,
    "head": OTHER,
    "idempotency_key": "key",
    "incarnation": "born:01M7H56QJVA6EK7K581PJCXMKR",
    "judged": {"node:C": 9},
    "kind": "load",
    "merged_parent_id": OTHER,
    "operation_id": "01M7H56QJVA6EK7K581PJCXMKR",
    "owner": {
        "lease_until": 1700000060000000,
        "lease_us": 60000000,
        "machine": "vm/1/pid:[2]",
        "process": 3,
        "started": "4",
    },
    "records": [],
    "rollback_commit_id": "01HF7YAT0072TECMQ4AMFHXKVZ",
    "schema_base": "digest",
    "schema_digest": "other",
    "tables": [
        {
            "confirmed_version": 6,
            "expected_version": 4,
            "path": "nodes/a",
            "post_commit_pin": 6,
            "row_count": 3,
            "table_branch": "f1.0",
            "table_key": "node:A",
            "transaction_uuids": ["x", "y"],
        }
    ],
}
SOURCE = {"branch": "main", "incarnation": "main", "manifest_version": 9}


@pytest.mark.parametrize("origin", [SOURCE, None, "absent"], ids=["new", "existing", "oldest"])
def test_a_stored_intent_of_an_earlier_release_is_read_in_full(origin: object) -> None:
    plain = {**STORED, "origin": origin}
    if origin == "absent":
        del plain["origin"]
    intent = decode(json.dumps(plain).encode(), "x")
    is_new = isinstance(origin, dict)
    new = NewBranch(
        branch=DEV,
        operation_id="01M7H56QJVA6EK7K581PJCXMKR",
        source=MAIN,
        source_incarnation="main",
        source_version=9,
    )
    there = ExistingBranch(branch=DEV, incarnation="born:01M7H56QJVA6EK7K581PJCXMKR")
    assert intent.request.target == (new if is_new else there)
    assert intent.request.requires == (
        BranchAbsent(DEV) if is_new else BranchIs(DEV, there.incarnation),
        HeadIs(OTHER),
        SchemaIs("digest"),
        TableAt("node:A", 4),
        JudgedTableAt("node:C", 9),
    )
    commit = intent.commit
    assert (commit.id, commit.branch, commit.kind, commit.actor) == (HEAD, DEV, "load", "me")
    assert (commit.merged_parent_id, commit.idempotency_key) == (OTHER, "key")
    assert (commit.message, commit.parent_id) == (None, None)
    assert commit.details == {"note": [1, None, "é"]}
    assert intent.request.schema_digest == "other"
    assert replace(intent.tables[0], confirmed=None).planned == 6
