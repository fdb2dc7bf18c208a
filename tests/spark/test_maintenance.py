"""Verification and copies on Spark: the same findings and the same graph as in this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """Two branches, indexes, and a few versions of every table."""
    with og.init(tmp_path / "home", SCHEMA) as graph:
        graph.load({"Person": [{"name": f"p{number}", "age": number} for number in range(500)]})
        graph.load({"Knows": [{"src": f"p{n}", "dst": f"p{n + 1}"} for n in range(400)]})
        graph.branches.create("dev")
        graph.mutate('query q() { delete Person where name = "p7" }', branch="dev")
        graph.optimize()
        yield graph


def test_it_finds_what_this_process_finds(local: HeldSession, graph: og.Graph) -> None:
    spark: dict[str, Any] = {"engine": "spark", "spark": local.session}
    sound = graph.verify("rows", **spark)
    assert (sound.findings, sound.engine) == ((), "spark")
    here = graph.verify("rows", engine="inprocess")
    assert (sound.files, sound.bytes, sound.rows) == (here.files, here.bytes, here.rows)
    pin = graph._repo.snapshot().pin("node:Person")
    folder = Path(graph.uri, pin.path, "data")
    damaged = max(folder.glob("*.lance"), key=lambda path: path.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 3] ^= 0xFF
    damaged.write_bytes(content)
    with og.open(graph.uri) as again:
        found, expected = again.verify("files", **spark), again.verify("files")
    assert not found.is_sound
    assert found.findings == expected.findings
    assert damaged.name in found.findings[0].place


def test_a_copy_is_whole(local: HeldSession, graph: og.Graph, tmp_path: Path) -> None:
    spark: dict[str, Any] = {"engine": "spark", "spark": local.session}
    done = graph.copy_to(tmp_path / "copy", **spark)
    assert (done.engine, done.branches) == ("spark", ("dev", "main"))
    with og.open(tmp_path / "copy") as copy:
        assert copy.verify("rows").findings == ()
        assert copy.query(COUNT)[0]["n"] == 500
        assert copy.query(COUNT, branch="dev")[0]["n"] == 499
        copy.branches.merge("dev")
        assert copy.query(COUNT)[0]["n"] == 499
    assert graph._repo.holds.all() == []
