"""The table of routes, the OpenAPI document and the door agree."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import Code, Forbidden
from omnigraph.policy.authorization import AccessRequest
from omnigraph.server import openapi
from omnigraph.server.routes import ROUTES, Route
from tests.server.support import ALL, SCHEMA, G, config_of, send
from tests.serving import Served, serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
QUERY = {"query": ALL}
# By operation: a request that a policy is asked about.
REQUESTS: dict[str, tuple[str, Any]] = {
    "cluster_query": ("", QUERY),
    "cluster_read": ("", {"query_source": ALL}),
    "cluster_change": ("", QUERY),
    "cluster_ingest": ("", {"data": ""}),
    "cluster_explain": ("", QUERY),
    "cluster_profile": ("", QUERY),
    "cluster_transaction": ("", {"statements": [{"mutate": "query q() {}"}]}),
    "cluster_mutate": ("", QUERY),
    "cluster_mutate_if": ("", QUERY),
    "cluster_load": ("", {"data": ""}),
    "cluster_blob": ("?entity=node&type=Person&id=a&property=avatar", None),
    "cluster_start_job": ("", {"kind": "export"}),
    "cluster_job_part": ("?expires=1&signature=x", None),
    "cluster_create_branch": ("", {"name": "x"}),
    "cluster_merge": ("", {"source": "x"}),
    "cluster_reset": ("", {"branch": "x", "to": "main"}),
    "cluster_rename_branch": ("", {"branch": "x", "to": "y"}),
    "cluster_revert": ("", {"commit": ULID}),
    "cluster_protect": ("", {"branch": "x"}),
    "cluster_create_tag": ("", {"name": "x"}),
    "cluster_blame": ("?type=Person&id=a", None),
    "cluster_plan_schema": ("", {"schema_source": SCHEMA}),
    "cluster_apply_schema": ("", {"schema_source": SCHEMA}),
}
OPEN = {"health", "ready"}


class Refuses:
    """A policy that refuses everything."""

    def authorise(self, request: AccessRequest) -> None:
        raise Forbidden(Code.FORBIDDEN, "the policy says no")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("contract")
    with serving(config_of(folder, jobs=folder / "jobs"), policy=Refuses()) as found:
        yield found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_passes_the_door(served: Served, route: Route) -> None:
    path = re.sub(r"{\w+(:path)?}", ULID, route.path.replace("{graph_id}", "g"))
    terms, body = REQUESTS.get(route.name, ("", None))
    headers = {"omnigraph_if_graph_commit": ULID}
    if route.name == "cluster_load_ndjson":
        headers["content_type"] = "application/x-ndjson"
    status, _, found = send(served, route.method, f"{path}{terms}", body, **headers)
    if route.name in OPEN:
        assert status in (200, 503)
        return
    assert status == 403, found
    answer = json.loads(found)
    assert (answer["code"], answer["error"]) == ("forbidden", "the policy says no")


def test_the_document_that_is_checked_in_is_the_one_of_the_code() -> None:
    assert DOCUMENT.read_bytes() == openapi.encoded(openapi.document())


def test_the_document_describes_every_route_once() -> None:
    found = openapi.document()
    names = [
        operation["operationId"] for path in found["paths"].values() for operation in path.values()
    ]
    assert sorted(names) == sorted(route.name for route in ROUTES)
    assert len(set(names)) == len(names)
    assert all(operation["tags"] for path in found["paths"].values() for operation in path.values())
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(found)))
    assert used <= set(found["components"]["schemas"])
    opened = openapi.document(is_open=True)
    assert "securitySchemes" not in opened["components"]
    assert "security" not in json.dumps(opened["paths"][f"{G[:-2]}/{{graph_id}}/query"])
