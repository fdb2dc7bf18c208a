"""An installation without extras does all that needs none of them, and says what the rest needs."""

import subprocess
import sys
from pathlib import Path

import pytest

# What only extras bring, and what users install for themselves.
MISSING = (
    "httptools",
    "jwt",
    "msgspec",
    "pandas",
    "polars",
    "prompt_toolkit",
    "pyspark",
    "python_multipart",
    "starlette",
    "uvicorn",
    "uvloop",
)

WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""

CALLS = """
import omnigraph as og
from omnigraph.errors import GraphError
read = "query people() { match { $p: Person } return { $p.name as name } }"
schema = "node Person { name: String @key } edge Knows: Person -> Person"
knows = {"from": "Ada", "to": "Bo"}
with og.init(sys.argv[1], schema=schema) as graph:
    graph.load({"Person": [{"name": "Ada"}, {"name": "Bo"}], "Knows": [knows]})
    rows = graph.query(read)
    print(rows.to_pylist(), len(graph.algorithms.pagerank("Person", "Knows")))
    graph.branches.create("draft")
    graph.mutate('query add() { insert Person { name: "Cy" } }', branch="draft")
    print(graph.branches.merge("draft").outcome, graph.verify().findings)
    for call in (
        lambda: rows.to_spark(),
        lambda: graph.vertices("Person"),
        lambda: graph.query(read, engine="spark"),
        lambda: graph.load({"Person": [{"name": "Di"}]}, engine="spark"),
        lambda: graph.algorithms.pagerank("Person", "Knows", engine="spark"),
    ):
        try:
            call()
        except GraphError as error:
            print(error.code, 'pip install "omnigraph[spark]"' in str(error))
"""

COMMAND = """
from omnigraph.cli.entry import run
sys.argv[0] = "omnigraph"
run()
"""


def process(script: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + script, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    made = process(CALLS, tmp_path / "g.omni")
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines() == [
        "[{'name': 'Ada'}, {'name': 'Bo'}] 2",
        "fast_forward ()",
        *["engine_unavailable True"] * 5,
    ]
    return tmp_path / "g.omni"


def test_what_needs_no_extra_works_and_the_rest_says_what_to_install(graph: Path) -> None:
    read = "query people() { match { $p: Person } return { count($p) as n } }"
    done = process(COMMAND, "query", graph, "-e", read, "--format", "csv")
    assert (done.returncode, done.stdout.split()) == (0, ["n", "3"]), done.stderr


@pytest.mark.parametrize(("args", "extra"), [(["serve"], "server")])
def test_a_command_names_its_extra(graph: Path, args: list[str], extra: str) -> None:
    done = process(COMMAND, *args, graph)
    assert done.returncode == 1
    assert "error[engine_unavailable]" in done.stderr
    assert f"pip install 'omnigraph[{extra}]'" in " ".join(done.stderr.split())
