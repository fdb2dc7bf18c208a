"""Manifests that this release does not read: named for what they are, and never half read."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.commits.records import FORMAT_VERSION, MARK, STAMP, format_metadata
from omnigraph.core.layout import MANIFEST
from omnigraph.errors import Code, Conflict, Corrupt
from tests.originals import make_original

SCHEMA = "node P { name: String @key }"


def test_no_graph_is_made_over_one_of_the_original(tmp_path: Path) -> None:
    make_original(tmp_path, 4)
    with pytest.raises(Conflict) as caught:
        og.init(tmp_path, SCHEMA)
    assert caught.value.code is Code.GRAPH_EXISTS


@pytest.mark.parametrize("number", [FORMAT_VERSION + 1, FORMAT_VERSION + 2])
def test_a_newer_graph_of_this_one_asks_for_an_upgrade(tmp_path: Path, number: int) -> None:
    og.init(tmp_path, SCHEMA).close()
    lance.dataset(tmp_path / MANIFEST).update_schema_metadata({**format_metadata(number)})
    with pytest.raises(Corrupt, match="upgrade omnigraph first") as caught:
        og.open(tmp_path)
    assert caught.value.code is Code.FORMAT_UNSUPPORTED
    assert "written_by" not in caught.value.details


@pytest.mark.parametrize("changed", [{STAMP: "4"}, {MARK: "5"}, {MARK: "x"}])
def test_marks_that_contradict_each_other_are_damage(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    """Another tool took the graph for its own."""
    og.init(tmp_path, SCHEMA).close()
    lance.dataset(tmp_path / MANIFEST).update_schema_metadata({**changed})
    with pytest.raises(Corrupt) as caught:
        og.open(tmp_path)
    assert caught.value.code is Code.CORRUPT


def test_a_table_that_is_no_manifest_is_called_so(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), tmp_path / MANIFEST)
    with pytest.raises(Corrupt, match="not the manifest of a graph") as caught:
        og.open(tmp_path)
    assert caught.value.code is Code.CORRUPT
