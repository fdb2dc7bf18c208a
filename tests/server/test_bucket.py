"""Graphs, loads by reference and exports on a real S3, with links that are signed for a while."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.server.config import GraphEntry, ServerConfig
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from tests.conformance.conftest import IDS, s3_options
from tests.conformance.seaweed import BUCKET
from tests.server.support import SCHEMA, G, send, until
from tests.serving import Served, serving

__all__ = ["s3_options"]

LINE = b'{"type": "Person", "data": {"name": "Ada"}}\n'


@pytest.fixture
def place() -> str:
    return f"s3://{BUCKET}/{IDS.new()}"


@pytest.fixture
def served(s3_options: dict[str, str], place: str, tmp_path: Path) -> Iterator[Served]:
    og.init(f"{place}/graph", SCHEMA, storage_options=s3_options).close()
    config = ServerConfig(
        graphs=(GraphEntry(id="g", uri=f"{place}/graph"),),
        storage=s3_options,
        jobs=tmp_path / "jobs",
        exports=f"{place}/exports",
        load_prefixes=(f"{place}/inbox",),
    )
    with serving(config) as found:
        yield found


def job(served: Served, path: str) -> Any:
    return json.loads(send(served, "GET", path)[2])


def test_parts_are_fetched_from_the_bucket_by_signed_links(
    served: Served, s3_options: dict[str, str], place: str
) -> None:
    bucket = open_objects(Root.parse(place, s3_options))
    bucket.put("inbox/in.jsonl", LINE)
    bucket.put("outbox/in.jsonl", LINE)
    done = send(served, "POST", f"{G}/load", {"uri": f"{place}/inbox/in.jsonl"})
    assert done[0] == 200, done
    for refused in ("outbox/in.jsonl", "inbox/../outbox/in.jsonl", "inbox%2f..%2foutbox/in.jsonl"):
        assert send(served, "POST", f"{G}/load", {"uri": f"{place}/{refused}"})[0] in (403, 404)
    path = send(served, "POST", f"{G}/jobs", {"kind": "export"})[1]["location"]
    ended = until(lambda: shown if (shown := job(served, path))["status"] == "done" else None)
    link = next(part for part in ended["parts"] if "Person" in part["name"])
    assert link["url"].startswith(s3_options["aws_endpoint"])
    assert len(ended["parts"]) == len({part["url"] for part in ended["parts"]})
    with urllib.request.urlopen(link["url"]) as answer:
        found = answer.read()
    assert len(found) == link["bytes"]
    assert json.loads(found)["data"]["name"] == "Ada"
    # A link is for one object: its signature does not open another one.
    other = link["url"].replace(link["name"], "other")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(other)
    assert refusal.value.code in (403, 404)
    refusal.value.close()
    assert send(served, "DELETE", path)[0] == 200
    assert bucket.list("exports") == []
