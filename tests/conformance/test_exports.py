"""Exports to every kind of storage: written, refused, replaced, loaded again."""

import json
from typing import Any

import pytest

import omnigraph as og
from omnigraph.store.io.streams import list_inputs, open_input
from omnigraph.store.root import Root

SCHEMA = "node P { k: String @key  t: String?  b: Blob? }\nedge Knows: P -> P"
ROWS = {"P": [{"k": f"p{n}", "t": "é\n" * n, "b": b"x" * n} for n in range(20)]}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out.jsonl.gz", {}),
        ("lines/", {}),
        ("columns/", {"format": "parquet"}),
    ],
)
def test_an_export_beside_the_graph(root: Root, name: str, options: dict[str, Any]) -> None:
    reach = dict(root.storage_options)
    target = f"{root.uri}-out/{name}"
    with og.init(root.uri, SCHEMA, storage_options=reach) as graph:
        graph.load(ROWS)
        graph.load({"Knows": [{"from": "p1", "to": "p2"}]})
        done = graph.export(target, storage_options=reach, **options)
        assert done.rows == {"node:P": 20, "edge:Knows": 1}
        with pytest.raises(og.errors.InvalidInput):
            graph.export(target, storage_options=reach, **options)
        again = graph.export(target, storage_options=reach, overwrite=True, **options)
        assert (again.files, again.bytes) == (done.files, done.bytes)
    listed = {info.uri: info.size for info in list_inputs(f"{root.uri}-out", reach)}
    manifest = f"{target}_export.json"
    assert listed.keys() - {manifest} == set(done.files)
    assert sum(listed[file] for file in done.files) == done.bytes
    if name.endswith("/"):
        with open_input(manifest, reach) as file:
            told = json.loads(file.read())
        assert told["commit"] == done.commit
    with og.init(f"{root.uri}-copy", SCHEMA, storage_options=reach) as copy:
        copy.load(target, storage_options=reach)
        assert copy.snapshot().counts == {"node:P": 20, "edge:Knows": 1}
        assert copy.read_blob("P", "p7", "b") == b"x" * 7
