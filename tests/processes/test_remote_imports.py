"""Reaching a server is cheap: neither Arrow nor storage is imported for a query by JSON."""

import subprocess
import sys
from pathlib import Path

import omnigraph as og
from omnigraph.server.config import GraphEntry, ServerConfig
from tests.serving import serving

SCRIPT = """
import sys
import omnigraph as og
graph = og.open(sys.argv[1] + "/graphs/g")
print(graph.query("query q() { match { $p: Person } return { count($p) as n } }")[0]["n"])
graph.mutate('query q() { insert Person { name: "Bo" } }')
print(graph.snapshot().counts["node:Person"], len(graph.commits.list()))
heavy = {"pyarrow", "lance", "numpy", "obstore", "starlette", "msgspec", "yaml"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""


def test_a_remote_query_imports_neither_arrow_nor_storage(tmp_path: Path) -> None:
    place = tmp_path / "g.omni"
    og.init(place, "node Person { name: String @key }").close()
    config = ServerConfig(graphs=(GraphEntry(id="g", uri=str(place)),))
    with serving(config) as served:
        answer = subprocess.run(
            [sys.executable, "-c", SCRIPT, served.url], capture_output=True, text=True, check=True
        )
    assert answer.stdout.splitlines() == ["0", "1 2", "[]"]
