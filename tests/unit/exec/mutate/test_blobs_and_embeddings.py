"""Large values that come along, and vectors that are computed on the way."""

from base64 import b64encode
from pathlib import Path

import pytest

from omnigraph.errors import Code, InvalidInput, LimitExceeded
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.runtime import telemetry
from tests.unit.exec.mutate.support import Lab, counts, lab

SCHEMA = """
node Doc {
    name: String @key
    page: I32?
    scan: Blob?
    cover: Blob?
    text: String?
    vec: Vector(2)? @embed("text", model="m")
}
"""
DOC = "node:Doc"


def encoded(data: bytes) -> str:
    return "base64:" + b64encode(data).decode()


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    found = lab(tmp_path, SCHEMA)
    for name, data in (("a", b"A" * 300_000), ("b", b""), ("c", None)):
        found.run(
            "insert Doc { name: $n, scan: $s }",
            {"n": name, "s": None if data is None else encoded(data)},
            params="$n: String, $s: Blob?",
        )
    return found


def test_bytes_come_as_base64_text(graph: Lab) -> None:
    assert graph.column(DOC, "scan") == {"a": b"A" * 300_000, "b": b"", "c": None}


@pytest.mark.parametrize(
    "text", ["file:///etc/passwd", "s3://b/k", "/etc/passwd", "aGk=", "base64:é", "base64:a"]
)
def test_other_texts_are_no_bytes(graph: Lab, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        graph.run('insert Doc { name: "x", scan: $s }', {"s": text}, params="$s: Blob")
    assert caught.value.code is Code.PARAMS_INVALID
    assert caught.value.details["property"] == "scan"


def test_an_update_carries_bytes_along(graph: Lab) -> None:
    graph.run("update Doc set { page: 7 } where page is null")
    assert graph.column(DOC, "page") == {"a": 7, "b": 7, "c": 7}
    assert graph.column(DOC, "scan") == {"a": b"A" * 300_000, "b": b"", "c": None}
    done = graph.run(
        'update Doc set { cover: $s } where name != "b"', {"s": encoded(b"new")}, params="$s: Blob"
    )
    assert counts(done) == (2, 0)
    assert graph.column(DOC, "cover") == {"a": b"new", "b": None, "c": b"new"}
    assert graph.column(DOC, "scan") == {"a": b"A" * 300_000, "b": b"", "c": None}


def test_bytes_that_are_replaced_are_not_read(graph: Lab) -> None:
    def takes(body: str) -> int:
        with telemetry.counting() as counting:
            graph.run(body, {"s": encoded(b"z")}, params="$s: Blob")
        return counting.snapshot().get("table.take", 0)

    both = takes('update Doc set { scan: $s, cover: $s } where name = "a"')
    one = takes('update Doc set { scan: $s } where name = "a"')
    assert (both, one) == (0, 2)  # one look at the sizes, one at the bytes


def test_too_many_bytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    graph = lab(tmp_path, SCHEMA, MutationLimits(bytes=100_000))
    for name in ("a", "b"):
        data = encoded(b"x" * 60_000)
        graph.run(
            "insert Doc { name: $n, scan: $s }",
            {"n": name, "s": data},
            params="$n: String, $s: Blob",
        )
    graph.run('update Doc set { page: 1 } where name = "a"')
    with telemetry.counting() as counting, pytest.raises(LimitExceeded) as caught:
        graph.run('update Doc set { page: 2 } where name in ["a", "b"]')
    assert caught.value.details == {"bound": "mutation_bytes", "limit": 100_000}
    assert counting.snapshot().get("table.take") == 1
    half = {"s": encoded(b"y" * 60_000)}
    with pytest.raises(LimitExceeded):
        graph.run('update Doc set { scan: $s } where name in ["a", "b"]', half, params="$s: Blob")
    graph.run('update Doc set { scan: $s } where name = "a"', half, params="$s: Blob")


def test_a_vector_is_computed_from_its_text(graph: Lab) -> None:
    graph.run(
        """insert Doc { name: "p", text: "four" } insert Doc { name: "q", text: "four" }
           insert Doc { name: "r", text: "sixsix" } insert Doc { name: "s", text: $none }
           insert Doc { name: "t", text: "four", vec: [9.0, 9.0] }""",
        params="$none: String?",
    )
    vectors = graph.column(DOC, "vec")
    assert vectors["p"] == vectors["q"] == [4.0, 5.0]
    assert vectors["r"] == [6.0, 7.0]
    assert vectors["s"] is vectors["a"] is None
    assert vectors["t"] == [9.0, 9.0]
    assert graph.embedder.asked == [(("four", "sixsix"), 2, "m")]


def test_a_new_text_gets_a_new_vector(graph: Lab) -> None:
    graph.run('insert Doc { name: "p", text: "four" }')
    graph.run('update Doc set { text: "sixsix" } where name = "p"')
    assert graph.column(DOC, "vec")["p"] == [6.0, 7.0]
    graph.run('update Doc set { page: 1 } where name = "p"')
    graph.run('update Doc set { text: $none } where name = "p"', params="$none: String?")
    assert graph.column(DOC, "vec")["p"] is None
    assert len(graph.embedder.asked) == 2
