"""What a query may take of memory: bounded by bytes, and the error names the setting."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Code, LimitExceeded

SCHEMA = """
node Doc { slug: String @key  kind: I32  body: String }
edge Cites: Doc -> Doc
"""
COUNT = 200
TEXT = "x" * 1_000  # 200,000 bytes in all


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory") / "g.omni"
    docs = [{"slug": f"d{n:03}", "kind": n % 4, "body": f"{n} {TEXT}"} for n in range(COUNT)]
    cites = [
        {"from": f"d{n:03}", "to": f"d{n * k % COUNT:03}"} for n in range(COUNT) for k in (3, 7)
    ]
    with og.init(place, SCHEMA) as graph:
        graph.load({"Doc": docs, "Cites": cites})
    return place


REFUSED = {
    # What it is about, the bound in bytes, and what takes more than that.
    "rows": (
        100_000,
        "query q() { match { $a: Doc  $b: Doc } return { $a.kind, $b.kind as b } }",
    ),
    "column": (100_000, "query q() { match { $d: Doc  $d.body contains 'x' } return { $d.slug } }"),
    "result": (300_000, "query q() { match { $a cites $b } return { $b.body as b } }"),
    "entity": (300_000, "query q() { match { $a cites $b } return { $b } }"),
    "sorting": (
        300_000,
        "query q() { match { $a cites $b } return { $a.slug } order { $b.body } }",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_more_is_refused(place: Path, name: str) -> None:
    most, text = REFUSED[name]
    text = text.replace("'", '"')
    with og.open(place, "r", settings=og.Settings(query_bytes_max=most)) as graph:
        with pytest.raises(LimitExceeded, match="`query_bytes_max`") as caught:
            graph.query(text, engine="inprocess").to_arrow()
        assert caught.value.code is Code.LIMIT_EXCEEDED
        assert caught.value.details == {"limit": "query_bytes_max", "most": most}
        with pytest.raises(LimitExceeded, match="`query_bytes_max`"):
            graph.query(text, engine="inprocess").to_pylist()
        # The handle goes on working.
        assert (
            graph.query("query q() { match { $d: Doc } return { count($d) as n } }")[0]["n"]
            == COUNT
        )
    with og.open(place, "r", settings=og.Settings(query_bytes_max=10_000_000)) as graph:
        graph.query(text, engine="inprocess").to_arrow()
        graph.query(text, engine="inprocess").to_pylist()


def test_python_values_count_too(place: Path) -> None:
    text = "query q() { match { $a: Doc  $b: Doc } return { $a.kind as a, $b.kind as b } }"
    with og.open(place, "r", settings=og.Settings(query_bytes_max=2_000_000)) as graph:
        assert graph.query(text, engine="inprocess").to_arrow().num_rows == COUNT * COUNT
        with pytest.raises(LimitExceeded, match="as Python values"):
            graph.query(text, engine="inprocess").to_pylist()


def test_a_named_entity_is_read_alone(place: Path) -> None:
    text = 'query q() { match { $d: Doc { slug: "d007" } } return { $d.body as b } }'
    with og.open(place, "r", settings=og.Settings(query_bytes_max=100_000)) as graph:
        assert graph.query(text, access="direct")[0]["b"] == f"7 {TEXT}"
