"""Requests made up from the OpenAPI document: what the server answers is what it says there."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import positive_data_acceptance

from omnigraph.server import openapi
from omnigraph.server.bulk import MULTIPART, NDJSON, PARQUET
from omnigraph.server.querying import ARROW
from tests.server.support import ALL, SCHEMA, config_of
from tests.serving import Served, serving

Case = schemathesis.Case[Any]
LINE = '{"type": "Person", "data": {"name": "A"}}\n'
# Values that mean something, in place of some of those that are made up.
KNOWN: dict[str, list[Any]] = {
    "branch": ["main", "work"],
    "source": ["work"],
    "target": ["main"],
    "from": ["main", "work"],
    "to": ["main", "work", "v1"],
    "at": ["main", "v1"],
    "snapshot": ["main", "v1"],
    "commit": ["main", "work"],
    "commit_id": ["main", "work"],
    "tag": ["v1"],
    "name": ["new", "v1", "work"],
    "query": [ALL, 'query q() { insert Person { name: "A" } }'],
    "query_source": [ALL],
    "params": [{}],
    "data": [LINE, "\n"],
    "type": ["Person", "Knows"],
    "types": [["Person"]],
    "type_names": [["Person"]],
    "id": ["A"],
    "property": ["avatar", "name"],
    "schema_source": [SCHEMA, SCHEMA + "\nnode Extra { name: String @key }"],
    "timeout": [5.0],
}
# The stream of events ends with its client, so it has a test of its own.
DOCUMENT = schemathesis.openapi.from_dict(openapi.document(is_open=True)).exclude(
    operation_id="cluster_events"
)


def _files() -> dict[str, bytes]:
    """A valid body of each media type."""
    people = pa.table({"name": ["A", "B"], "age": pa.array([1, None], pa.int32())})
    arrow, parquet = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(arrow, people.schema) as writer:
        writer.write_table(people)
    pq.write_table(people, parquet)
    head = f'--cut\r\nContent-Type: {ARROW}\r\nContent-Disposition: attachment; name="Person"'
    parts = head.encode() + b"\r\n\r\n" + arrow.getvalue() + b"\r\n--cut--\r\n"
    return {
        NDJSON: LINE.encode() * 3,
        ARROW: arrow.getvalue(),
        PARQUET: parquet.getvalue(),
        MULTIPART: parts,
    }


@st.composite
def _damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """A body as it is, or with some bytes changed, or cut short, or something else."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.binary(max_size=200))
    found = bytearray(body)
    for _ in range(draw(st.integers(0, 3))):
        found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found[: draw(st.sampled_from([len(found), draw(st.integers(0, len(found)))]))])


def _raw(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


for _media, _body in _files().items():
    schemathesis.openapi.media_type(_media, _damaged(_body))
    schemathesis.serializer(_media)(_raw)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("described")
    config = config_of(folder, jobs=folder / "jobs", budgets={"waiting": 10_000})
    with serving(config) as found:
        graph = found.server.graph("g").acting_as("tester")
        graph.mutate('query q() { insert Person { name: "A" } }')
        graph.branches.create("work")
        graph.tags.create("v1")
        yield found


def _sensible(data: st.DataObject, given: Any) -> None:
    """Put known values in place of some that were made up."""
    if not isinstance(given, dict):
        return
    for name in sorted(set(given) & set(KNOWN)):
        if data.draw(st.booleans()):
            given[name] = data.draw(st.sampled_from(KNOWN[name]))


def _is_right(case: Case, place: str) -> bool:
    """True if a part of a request is as the document says, and not wrong on purpose."""
    found = None if case.meta is None else case.meta.components.get(ParameterLocation(place))
    return found is None or found.mode.is_positive


def _judge(case: Case, data: st.DataObject, served: Served) -> None:
    is_known: bool = data.draw(st.sampled_from([True, True, True, True, False]))
    if case.path_parameters and is_known and _is_right(case, "path"):
        case.path_parameters["graph_id"] = "g"
    if case.meta is not None and case.meta.generation.mode.is_positive:
        for part in (case.path_parameters, case.query, case.body):
            _sensible(data, part)
    headers = {}
    if case.media_type == MULTIPART:
        headers["content-type"] = f"{MULTIPART}; boundary=cut"
    # A text that the document allows need not be a query, a branch or a schema.
    case.call_and_validate(
        base_url=served.url,
        timeout=60,
        headers=headers,
        excluded_checks=[positive_data_acceptance],
    )


def _made_up(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )


@DOCUMENT.given(data=st.data())
@DOCUMENT.parametrize()
@_made_up(5)
def test_answers_are_as_the_document_says(case: Case, data: st.DataObject, served: Served) -> None:
    _judge(case, data, served)


@pytest.mark.deep
@DOCUMENT.given(data=st.data())
@DOCUMENT.parametrize()
@_made_up(100)
def test_many_answers_are_as_the_document_says(
    case: Case, data: st.DataObject, served: Served
) -> None:
    _judge(case, data, served)
