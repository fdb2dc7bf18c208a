"""`omnigraph clone` as a user runs it: to S3 and back, killed on the way, and repeated."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.repository import components
from omnigraph.runtime.environment import storage_options
from omnigraph.runtime.failpoints import CRASH_STATUS
from omnigraph.store.root import Root
from tests.cli.support import invoke
from tests.conformance.conftest import IDS
from tests.conformance.seaweed import BUCKET

SCHEMA = "node Person { name: String @key }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
EXPECTED = {"main": ["a", "b"], "dev": ["a", "x"]}
# Ends itself as it is about to make the copy a graph.
KILLED = """
import sys
from omnigraph.cli.main import app
from omnigraph.core.failpoints import Fp
from omnigraph.runtime.failpoints import Crash, Plan, arm

arm(Plan(faults=((Fp.COPY_FINISH, Crash()),), nth=1))
app(["clone", *sys.argv[1:]])
"""


@pytest.fixture
def variables(s3_options: dict[str, str]) -> dict[str, Any]:
    """The environment of somebody who uses S3."""
    return {
        "AWS_ACCESS_KEY_ID": s3_options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": s3_options["aws_secret_access_key"],
        "AWS_REGION": s3_options["aws_region"],
        "AWS_ENDPOINT_URL": s3_options["aws_endpoint"],
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture
def home(tmp_path: Path) -> str:
    place = str(tmp_path / "home.omni")
    with og.init(place, SCHEMA) as graph:
        add(graph, "a")
        graph.branches.create("dev")
        add(graph, "x", "dev")
        graph.tags.create("v1")
        add(graph, "b")
    return place


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def clone(variables: dict[str, Any], *arguments: str) -> dict[str, object]:
    """Run the command twice: it dies the first time, and goes on the second time."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, **variables},
        check=False,
        capture_output=True,
    )
    assert ended.returncode == CRASH_STATUS, ended.stderr
    unfinished = invoke("query", arguments[1], "-e", ALL, **variables)
    assert unfinished.exit_code != 0
    assert "not finished" in unfinished.stderr
    done = invoke("clone", *arguments, "--json", **variables)
    assert done.exit_code == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def names(variables: dict[str, Any], *where: str) -> list[str]:
    answer = invoke("query", *where, "-e", ALL, "--format", "jsonl", **variables)
    assert answer.exit_code == 0, answer.stderr
    _, *rows = answer.stdout.splitlines()
    return [json.loads(line)["name"] for line in rows]


def test_everything_goes_to_s3_and_comes_back(
    variables: dict[str, Any], home: str, tmp_path: Path
) -> None:
    backup, restored = f"s3://{BUCKET}/{IDS.new()}", str(tmp_path / "restored.omni")
    for source, target in ((home, backup), (backup, restored)):
        done = clone(variables, source, target)
        assert done["branches"] == ["dev", "main"]
        assert int(str(done["reused"])) > 0
        for branch, expected in EXPECTED.items():
            assert names(variables, target, "-b", branch) == expected
        assert names(variables, target, "--at", "v1") == ["a"]
        verified = invoke("verify", target, "--depth", "rows", **variables)
        assert verified.exit_code == 0, verified.output


def test_one_branch_and_one_state_go_to_s3(variables: dict[str, Any], home: str) -> None:
    branch, state = (f"s3://{BUCKET}/{IDS.new()}" for _ in range(2))
    assert clone(variables, f"{home}@dev", branch)["branches"] == ["dev", "main"]
    assert names(variables, branch, "-b", "dev") == EXPECTED["dev"]
    assert clone(variables, home, state, "--at", "v1")["branches"] == ["main"]
    assert names(variables, state) == ["a"]
    gone = invoke("query", state, "--at", "main~1", "-e", ALL, **variables)
    assert gone.exit_code != 0
    assert "clean-up" in gone.stderr or "not stored" in gone.stderr


def test_a_graph_moved_within_s3_is_relocated(variables: dict[str, Any], home: str) -> None:
    """Its files are copied by another tool; branches are refused until it is told its place."""
    first, moved = (f"s3://{BUCKET}/{IDS.new()}" for _ in range(2))
    assert invoke("clone", home, first, "--quiet", **variables).exit_code == 0
    copy_objects(variables, first, moved)
    refused = invoke("query", moved, "-b", "dev", "-e", ALL, **variables)
    assert refused.exit_code != 0
    assert "omnigraph relocate" in refused.stderr
    done = json.loads(invoke("relocate", moved, "--json", **variables).stdout)
    assert done["recorded"] == [first]
    assert names(variables, moved, "-b", "dev") == EXPECTED["dev"]
    assert invoke("relocate", moved, **variables).stdout == "nothing to relocate\n"


def copy_objects(variables: dict[str, Any], source: str, target: str) -> None:
    """Copy every object, as a tool does that knows nothing about graphs."""
    options = storage_options(source, variables)
    old, new = (components(Root.parse(place, options)).objects for place in (source, target))
    for info in old.list(""):
        new.put(info.path, old.get(info.path))
