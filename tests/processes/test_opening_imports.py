"""Opening a graph and reading it waits for nothing that other calls need."""

import subprocess
import sys
from pathlib import Path

import omnigraph as og

SCRIPT = """
import sys
import omnigraph as og
with og.open(sys.argv[1]) as graph:
    print(graph.query("query q() { match { $p: Person } return { count($p) as n } }")[0]["n"])
    late = ("client", "core.cleanup", "core.maintenance", "dataplane.decode", "dataplane.export",
        "dataplane.load", "dataplane.spark", "embed.config", "exec.algorithms",
        "exec.changes", "exec.merge", "exec.schema_change", "results.maintenance",
        "results.recovery", "server", "store.maintenance", "store.writing.alter",
        "store.writing.copy_fragments")
    print(sorted(name for name in late if f"omnigraph.{name}" in sys.modules))
    print(str(graph.branches.list()[0]), "omnigraph.exec.merge" in sys.modules)
"""

COLLECTING = """
import gc
from omnigraph.cli.startup import collect_again, own_process, uncollected
gc.disable()
collect_again()
print(gc.isenabled())
gc.enable()
with uncollected():
    print(gc.isenabled(), gc.get_freeze_count())
own_process()
with uncollected():
    print(gc.isenabled())
print(gc.isenabled(), gc.get_freeze_count() > 0)
gc.disable()
collect_again()
print(gc.isenabled())
"""


def test_a_query_imports_what_queries_need(tmp_path: Path) -> None:
    place = tmp_path / "g.omni"
    og.init(place, "node Person { name: String @key }").close()
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(place)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["0", "[]", "main True"]


def test_only_a_process_of_our_own_opens_without_collections() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", COLLECTING], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["False", "True 0", "False", "True True", "True"]
