"""Queries over more text than one Arrow array holds: a lowered bound here, 2.2 GiB in the end."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import LimitExceeded
from omnigraph.exec import tuning
from omnigraph.types import AccessChoice

SCHEMA = """
node Doc { slug: String @key  kind: I32  body: String?  tags: [String]? }
edge Cites: Doc -> Doc { why: String? }
"""
QUERIES = {
    "all": "query q() { match { $d: Doc } return { $d.slug as s, $d.body as b, $d.tags as t } }",
    "substring": 'query q() { match { $d: Doc  $d.body contains "7 x" } return { $d.body as b } }',
    "equal": 'query q() { match { $d: Doc  $d.body = "text 3 x" } return { $d.slug as s } }',
    "one_of": 'query q() { match { $d: Doc  $d.body in ["text 3 x", "no"] } return { $d.body } }',
    "member": 'query q() { match { $d: Doc  $d.tags contains "t3" } return { $d.tags as t } }',
    "null": "query q() { match { $d: Doc  $d.body is null } return { $d.slug as s } }",
    "entity": "query q() { match { $d: Doc } return { $d } }",
    "ordered": "query q() { match { $d: Doc } return { $d.slug } order { $d.body desc } limit 9 }",
    "distinct": "query q() { match { $d: Doc } return distinct { $d.body as b } }",
    "grouped": "query q() { match { $d: Doc } return { $d.body as b, count($d) as n } }",
    "extreme": "query q() { match { $d: Doc } return { $d.kind, min($d.body), max($d.body) } }",
    "counted": "query q() { match { $d: Doc } return { count(distinct $d.body) as n } }",
    "many": "query q() { match { $a cites $b } return { $a.slug, $b.body as b, $b.tags as t } }",
    "edges": "query q() { match { $a $c: cites $b } return { $c.why as why, $b.body as b } }",
    "joined": "query q() { match { $a: Doc  $b: Doc  $a.body = $b.body } return { count($b) } }",
    "compared": "query q() { match { $a cites $b  $a.body < $b.body } return { $a.id, $b.id } }",
    "named": 'query q() { match { $d: Doc { slug: "d003" } } return { $d.body as b, $d } }',
    "optional": """query q() { match { $a: Doc  optional { $a cites $b  $b.kind = 1 } }
        return { $a.slug, $b.body as b, $b as other } }""",
    "searched": 'query q() { match { $d: Doc  search($d.body, "text") } return { $d.slug as s } }',
}


def fill(graph: og.Graph) -> None:
    # Stored in another order than that of the ids.
    numbers = [number * 37 % 60 for number in range(60)]
    docs = [
        {
            "slug": f"d{number:03}",
            "kind": number % 3,
            "body": None if number % 11 == 5 else f"text {number % 25} x",
            "tags": None if number % 7 == 1 else [f"t{number % 5}", f"u{number}"],
        }
        for number in numbers
    ]
    cites = [
        {"from": f"d{number:03}", "to": f"d{number * k % 60:03}", "why": f"because {number}"}
        for number in range(60)
        for k in (3, 7)
    ]
    half = len(docs) // 2
    graph.load({"Doc": docs[:half]})
    graph.load({"Doc": docs[half:], "Cites": cites})


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        fill(graph)
        yield graph


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("kept") / "g.omni", SCHEMA) as graph:
        fill(graph)
        yield graph


@pytest.mark.parametrize("access", ["dense", "direct"])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("most", [30, 400])
def test_answers_are_the_same_with_wide_offsets(
    kept: og.Graph, name: str, access: AccessChoice, most: int
) -> None:
    expected = kept.query(QUERIES[name])
    table, rows = expected.to_arrow(), expected.to_pylist()
    bounds = tuning.tuned(narrow_text_bytes_max=most)
    with bounds, og.open(kept.uri, "r") as fresh:
        found = fresh.query(QUERIES[name], access=access)
        assert found.to_arrow().schema == table.schema
        assert found.to_arrow().to_pylist() == table.to_pylist()
        assert found.to_pylist() == rows
        assert found.settled().to_pylist() == rows
        if "b" in table.schema.names and table.num_rows > 9:
            assert found.to_arrow().column("b").num_chunks > 1 or most > 30


def test_columns_are_carried_over_a_change(graph: og.Graph) -> None:
    with tuning.tuned(narrow_text_bytes_max=100):
        assert len(graph.query(QUERIES["all"]).to_arrow()) == 60
        graph.mutate('query q() { update Doc set { body: "changed" } where slug = "d007" }')
        graph.mutate('query q() { insert Doc { slug: "d0071", kind: 1, body: "new" } }')
        graph.mutate('query q() { delete Doc where slug = "d008" }')
        rows = {row["s"]: row["b"] for row in graph.query(QUERIES["all"])}
        assert (rows["d007"], rows["d0071"], "d008" in rows) == ("changed", "new", False)
        with og.open(graph.uri, "r") as fresh:
            found = fresh.query(QUERIES["all"]).to_pylist()
            assert found == graph.query(QUERIES["all"]).to_pylist()


@pytest.mark.deep
def test_two_gigabytes_of_text(tmp_path: Path) -> None:
    size, count = 1 << 20, 2_253  # 2.2 GiB
    filler = "lorem ipsum " * (size // 12)

    def body(number: int) -> str:
        return f"doc {number:04} " + filler

    def batches() -> Iterator[pa.RecordBatch]:
        # Backwards: the order of the ids is not that of storage.
        for number in reversed(range(count)):
            columns = [[f"d{number:04}"], pa.array([number % 7], pa.int32()), [body(number)]]
            yield pa.record_batch(columns, ["slug", "kind", "body"])

    reader = pa.RecordBatchReader.from_batches(next(batches()).schema, batches())
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Doc": reader}, engine="inprocess")
        cites = [{"from": f"d{number:04}", "to": "d0001"} for number in range(2_200)]
        graph.load({"Cites": cites})
        found = graph.query(
            'query q() { match { $d: Doc  $d.body contains "doc 0777" } return { $d.slug } }'
        )
        assert found.to_pylist() == [{"d.slug": "d0777"}]
        whole = graph.query("query q() { match { $d: Doc } return { $d.body as b } }").to_arrow()
        assert (whole.num_rows, whole.schema.field("b").type) == (count, pa.string())
        assert whole.nbytes > 2 << 30
        assert whole.column("b")[count - 1].as_py() == body(count - 1)
        del whole
        most = graph.query(
            "query q() { match { $d: Doc } return { $d.kind as k, max($d.body) as b } }"
        )
        assert sorted(row["b"][:8] for row in most)[-1] == f"doc {count - 1:04}"
        first = graph.query(
            "query q() { match { $d: Doc } return { $d.slug as s } order { $d.body desc } limit 1 }"
        )
        assert first[0]["s"] == f"d{count - 1:04}"
        # One text, so often that the result is too large for one array.
        many = graph.query("query q() { match { $a cites $b } return { $b.body as b } }").to_arrow()
        assert (many.num_rows, many.schema.field("b").type) == (2_200, pa.string())
        assert many.column("b")[2_199].as_py() == body(1)
        del many
        graph.mutate('query q() { update Doc set { body: "short" } where slug = "d0003" }')
        short = graph.query('query q() { match { $d: Doc  $d.body = "short" } return { $d.slug } }')
        assert short.to_pylist() == [{"d.slug": "d0003"}]
        with pytest.raises(LimitExceeded) as caught:
            graph.mutate("query q() { update Doc set { kind: 1 } where kind < 9 }")
        assert caught.value.details["bound"] == "mutation_bytes"
        done = graph.export(tmp_path / "out.parquet", types=["Doc"])
        assert done.rows == {"node:Doc": count}
