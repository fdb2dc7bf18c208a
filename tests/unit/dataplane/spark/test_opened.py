"""Options of the format `omnigraph`, without a session."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.opened import Opened
from omnigraph.errors import InvalidInput


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("zz > 1", "No field named zz"),
        ("age >", "sql parser error: Expected: an expression, found: EOF"),
        ("age > 'x'", "could not convert to literal of type 'Int32'"),
    ],
)
def test_a_condition_that_cannot_be_applied_says_why(
    tmp_path: Path, where: str, reason: str
) -> None:
    with og.init(tmp_path / "g.omni", "node Person { name: String @key  age: I32? }") as graph:
        options = {"path": graph.uri, "type": "Person", "where": where}
        with pytest.raises(InvalidInput, match=reason) as caught:
            Opened(options)
    assert "corrupt" not in str(caught.value)
    assert ".rs" not in str(caught.value)
