"""What clients of the original rely on, in our own words, against a real server."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.server.auth import digest
from omnigraph.server.config import GraphEntry, ServerConfig
from tests.serving import Served, serving

SCHEMA = """
node Person { name: String @key  age: I32?  avatar: Blob? }
edge Knows: Person -> Person
"""
QUERIES = """
query find_person($name: String) @description("One person by name.") {
  match { $p: Person { name: $name } } return { $p.name as name, $p.age as age }
}
query set_age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
"""
TOKEN = "og_" + "t" * 43
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name asc } }"


def lines(*names: str) -> str:
    people = [{"type": "Person", "data": {"name": name}} for name in names]
    return "".join(json.dumps(item) + "\n" for item in people)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    people = [{"name": name, "age": 30 + number} for number, name in enumerate("ABCD")]
    for name in ("alpha", "beta"):
        with og.init(folder / f"{name}.omni", SCHEMA) as graph:
            graph.load({"Person": [{**people[0], "avatar": b"0123456789"}, *people[1:]]})
            graph.load({"Knows": [{"from": "A", "to": other} for other in "BCD"]})
    (folder / "queries").mkdir()
    (folder / "queries" / "people.gq").write_text(QUERIES)
    tokens = {"tokens": [{"sha256": digest(TOKEN), "actor": "act-ada"}]}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    config = ServerConfig(
        graphs=tuple(
            GraphEntry(id=name, uri=str(folder / f"{name}.omni"), queries=folder / "queries")
            for name in ("alpha", "beta")
        ),
        tokens=folder / "tokens.json",
        jobs=folder / "jobs",
    )
    with serving(config) as found:
        yield found


class Http:
    """One request per call, with the token."""

    def __init__(self, served: Served, token: str | None = TOKEN) -> None:
        self._served = served
        self._token = token

    def __call__(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._served.host, self._served.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._token is not None:
            named.setdefault("authorization", f"Bearer {self._token}")
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, data, named)
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, found

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, _, found = self(method, path, body, **headers)
        assert status < 300, found
        return json.loads(found)

    def fails(self, status: int, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answered, _, found = self(method, path, body, **headers)
        assert answered == status, found
        return json.loads(found)


@pytest.fixture
def call(served: Served) -> Http:
    return Http(served)


A = "/graphs/alpha"


def test_health_names_the_wire_and_graphs_are_listed(served: Served, call: Http) -> None:
    assert Http(served, None).json("GET", "/healthz")["version"].startswith("0.10.")
    assert Http(served, None).json("GET", "/readyz")["ready"] is True
    listed = call.json("GET", "/graphs")["graphs"]
    assert [item["graph_id"] for item in listed] == ["alpha", "beta"]


def test_a_snapshot_counts_the_entities(call: Http) -> None:
    found = call.json("GET", "/graphs/beta/snapshot")
    counts = {item["type_name"]: item["entity_count"] for item in found["datasets"]}
    assert counts == {"Person": 4, "Knows": 3}
    assert found["graph_manifest_version"] > 0


def test_branches_come_and_go_and_an_unchanged_one_merges(call: Http) -> None:
    made = call.json("POST", f"{A}/branches", {"name": "agent/x"})
    assert (made["name"], made["from"], made["actor_id"]) == ("agent/x", "main", "act-ada")
    assert "agent/x" in call.json("GET", f"{A}/branches")["branches"]
    merged = call.json("POST", f"{A}/branches/merge", {"source": "agent/x"})
    assert merged["outcome"] in ("fast_forward", "already_up_to_date")
    again = call.json("POST", f"{A}/branches/merge", {"source": "agent/x", "dry_run": True})
    assert again["outcome"] == "already_up_to_date"
    call.json("DELETE", f"{A}/branches/agent%2Fx")
    assert "agent/x" not in call.json("GET", f"{A}/branches")["branches"]
    call.fails(404, "DELETE", f"{A}/branches/agent%2Fx")


def test_rows_have_their_names_and_no_match_is_empty(call: Http) -> None:
    found = call.json("POST", "/graphs/beta/query", {"query": ALL})
    assert found["rows"] == [{"p.name": name} for name in "ABCD"]
    assert (found["row_count"], found["columns"]) == (4, ["p.name"])
    none = 'query q() { match { $p: Person { name: "Z" } } return { $p.age as years } }'
    empty = call.json("POST", f"{A}/query", {"query": none})
    assert (empty["rows"], empty["columns"]) == ([], ["years"])


def test_the_name_of_a_query_is_not_that_of_a_comment(call: Http) -> None:
    text = "query all() { match { $p: Person } return { $p.name as name } }"
    before = ("", "// a query of(\n", "/* query of( */ //// query\n  ")
    found = [call.json("POST", "/graphs/alpha/query", {"query": each + text}) for each in before]
    found.append(
        call.json("POST", "/graphs/alpha/query", {"query": text.replace(" ", " // of(\n", 1)})
    )
    assert [each["query_name"] for each in found] == ["all"] * 4


@pytest.mark.parametrize("stored", [False, True])
def test_conditional_writes_build_on_the_commit_that_was_read(call: Http, stored: bool) -> None:
    read = call.json("POST", f"{A}/query", {"query": ALL})["graph_commit_id"]
    params = {"name": "B", "age": 50 + stored}
    text = QUERIES[QUERIES.index("query set_age") :]
    path = f"{A}/queries/set_age" if stored else f"{A}/mutate"
    body: dict[str, Any] = {"params": params} if stored else {"query": text, "params": params}
    done = call.json("POST", f"{path}/if-graph-commit", body, omnigraph_if_graph_commit=read)
    assert done["commit"]["parent_commit_id"] == read
    assert done["affected_nodes"] == 1
    assert call.json("GET", f"{A}/commits/{done['commit']['graph_commit_id']}") == done["commit"]
    lost = call.fails(412, "POST", f"{path}/if-graph-commit", body, omnigraph_if_graph_commit=read)
    assert lost["precondition_failure"] == {
        "expected": read,
        "actual": done["commit"]["graph_commit_id"],
    }
    params["name"] = "nobody"
    same = call.json("POST", path, body)
    assert same["commit"] is None
    head = call.json("GET", f"{A}/snapshot")["graph_commit_id"]
    assert head == done["commit"]["graph_commit_id"]
    call.fails(400, "POST", f"{path}/if-graph-commit", body)
    call.fails(400, "POST", f"{path}/if-graph-commit", body, omnigraph_if_graph_commit="*")


def test_every_answer_about_a_commit_names_it(call: Http) -> None:
    call.json("POST", f"{A}/branches", {"name": "named"})
    loaded = call.json("POST", f"{A}/load", {"data": lines("N"), "branch": "named"})
    text = 'query q() { insert Person { name: "M" } }'
    writes = [
        loaded,
        call.json("POST", f"{A}/mutate", {"query": text, "branch": "named"}),
        call.json("POST", f"{A}/branches/merge", {"source": "named", "target": "main"}),
        call.json("POST", f"{A}/optimize", {"branch": "main"}),
    ]
    merged = writes[2]["graph_commit_id"]
    body = {"commit": merged, "branch": "main"}
    writes.append(call.json("POST", f"{A}/branches/revert", body))
    body = {"branch": "named", "to": loaded["graph_commit_id"]}
    writes.append(call.json("POST", f"{A}/branches/reset", body))
    for done in writes:
        assert done["graph_commit_id"] == done["commit"]["graph_commit_id"]


def test_both_loads_make_a_new_branch(call: Http) -> None:
    envelope = {"data": lines("E"), "branch": "in-1", "from": "main", "mode": "merge"}
    first = call.json("POST", f"{A}/load", envelope)
    second = call.json(
        "POST",
        f"{A}/load/ndjson?branch=in-2&from=main",
        lines("E", "F"),
        content_type="application/x-ndjson",
    )
    for done, number in ((first, 1), (second, 2)):
        assert done["branch_created"] is True
        assert done["base_branch"] == "main"
        assert [item["name"] for item in done["nodes"]] == ["Person"]
        assert done["total_entities"] == done["nodes"][0]["entities_loaded"] == number
        assert done["commit"]["graph_branch"] == f"in-{number}"
        assert done["graph_commit_id"] == done["commit"]["graph_commit_id"]
    call.fails(404, "POST", f"{A}/load", {"data": lines("G"), "branch": "missing"})
    again = {"data": lines("C"), "branch": "in-1", "mode": "append"}
    taken = call.fails(409, "POST", f"{A}/load", again)
    assert taken["code"] == "conflict"
    named = {"entity_kind": "node", "type_name": "Person", "entity_id": "C"}
    assert taken["key_conflict"] == named
    twice = {"data": lines("X", "X"), "branch": "in-1", "mode": "append"}
    assert "key_conflict" not in call.fails(400, "POST", f"{A}/load", twice)
    call.fails(415, "POST", f"{A}/load/ndjson", lines("G"), content_type="text/csv")


def test_what_is_wrong_has_its_status(served: Served, call: Http) -> None:
    for unknown in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "unknown"):
        assert call.fails(404, "GET", f"{A}/commits/{unknown}")["code"] == "not_found"
        call.fails(404, "GET", f"{A}/commits/{unknown}/changes")
    wrong = call.fails(400, "POST", f"{A}/query", {"query": "nonsense"})
    assert wrong["code"] == "bad_request"
    assert wrong["diagnostic"][0]["message"]
    assert Http(served, "og_wrong").fails(401, "GET", f"{A}/snapshot")["code"] == "unauthorized"
    missing = Http(served, None).fails(401, "GET", f"{A}/snapshot")
    assert missing["error"] == "missing bearer token"
    call.fails(404, "GET", "/graphs/gamma/snapshot")
    call.fails(404, "GET", "/snapshot")
    call.fails(405, "PUT", f"{A}/query", {})
    call.fails(400, "POST", f"{A}/query", {"query": ALL, "surprise": 1})
    call.fails(400, "GET", f"{A}/changes?surprise=1")
    refused = call.fails(400, "POST", f"{A}/query", {"query": "query q() { delete Person }"})
    assert "request_id" in refused


def test_deprecated_routes_answer_and_name_their_successors(call: Http) -> None:
    status, headers, found = call("POST", "/graphs/beta/read", {"query_source": ALL})
    assert (status, headers["deprecation"]) == (200, "true")
    assert headers["link"] == '</graphs/beta/query>; rel="successor-version"'
    asked = json.loads(found)
    now = call.json("POST", "/graphs/beta/query", {"query": ALL})
    assert {**asked, "graph_commit_id": now["graph_commit_id"]} == now
    call.json("POST", f"{A}/branches", {"name": "old"})
    text = QUERIES[QUERIES.index("query set_age") :]
    old = {"query_source": text, "query_name": "set_age", "params": {"name": "B", "age": 7}}
    for path in ("change", "mutate"):
        status, headers, found = call("POST", f"{A}/{path}", {**old, "branch": "old"})
        assert (status, json.loads(found)["query_name"]) == (200, "set_age")
        assert headers.get("link", "").startswith(f"<{A}/mutate>") is (path == "change")
    done = call.json("POST", f"{A}/ingest", {"data": lines("O"), "branch": "old"})
    assert (done["total_entities"], done["branch"]) == (1, "old")
    status, headers, _ = call("POST", f"{A}/change", {"query_source": text, "query": text})
    assert (status, headers["deprecation"]) == (400, "true")
    call.fails(400, "POST", f"{A}/read", {"query_source": text, "query_name": "set_age"})


def test_the_feed_starts_at_the_baseline(call: Http) -> None:
    call.json("POST", f"{A}/branches", {"name": "feed"})
    _, _, found = call("POST", f"{A}/changes/baseline", {"branch": "feed"})
    base = json.loads(found.splitlines()[-1])["baseline"]
    read = call.json("POST", f"{A}/query", {"query": ALL, "branch": "feed"})
    assert base["snapshot_commit_id"] == read["graph_commit_id"]
    assert len(found.splitlines()) == 8
    call.json("POST", f"{A}/load", {"data": lines("P", "Q"), "branch": "feed"})
    page = call.json("GET", f"{A}/changes?limit=1&cursor={base['resume_cursor']}")
    assert "cursor" not in page
    assert [item["id"] for item in page["blocks"][0]["changes"]] == ["P"]
    last = call.json("GET", f"{A}/changes?limit=5&page_token={page['next_page_token']}")
    assert last["caught_up"] is True
    assert last["blocks"][0]["changes"][0]["after"]["properties"]["name"] == "Q"
    end = call.json("GET", f"{A}/changes?cursor={last['cursor']}")
    assert (end["blocks"], end["caught_up"]) == ([], True)
    changes = call.json(
        "GET", f"{A}/commits/{page['blocks'][0]['cause']['graph_commit_id']}/changes?limit=1"
    )
    assert changes["cause"]["actor_id"] == "act-ada"
    assert "next_page_token" in changes


def test_a_blob_has_ranges_and_tags(call: Http) -> None:
    path = "/graphs/beta/blob?entity=node&type=Person&id=A&property=avatar"
    status, headers, found = call("GET", path)
    assert (status, found, headers["content-length"]) == (200, b"0123456789", "10")
    assert headers["content-type"] == "application/octet-stream"
    tag = headers["etag"]
    assert tag.startswith('"')
    assert headers["omnigraph-snapshot-id"]
    status, headers, found = call("GET", path, range="bytes=2-4")
    assert (status, found, headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert call("GET", path, range="bytes=-3")[2] == b"789"
    assert call("GET", path, range="bytes=0-1,3-4")[0] == 200
    assert call("GET", path, if_none_match=tag)[0] == 304
    assert call("GET", path, if_match='"other"')[0] == 412
    assert call("HEAD", path, if_match='"other"')[0] == 412
    late = call("GET", path, range="bytes=10-")
    assert (late[0], late[1]["content-range"]) == (416, "bytes */10")
    status, headers, found = call("HEAD", path, range="bytes=2-4")
    assert (status, headers["content-length"], found) == (200, "10", b"")
    call.fails(404, "GET", path.replace("id=A", "id=B"))
    call.fails(400, "GET", path.replace("entity=node", "entity=edge"))
    call.fails(404, "GET", path.replace("id=A", "id=nobody"))


def test_the_schema_and_an_export_are_texts(call: Http) -> None:
    assert "node Person" in call.json("GET", f"{A}/schema")["schema_source"]
    _, headers, found = call("POST", "/graphs/beta/export", {})
    assert headers["content-type"].startswith("application/x-ndjson")
    assert len(found.splitlines()) == 7
    _, _, some = call("GET", "/graphs/beta/export?types=Person")
    assert len(some.splitlines()) == 4
    call.fails(400, "POST", f"{A}/export", {"type_names": ["Nothing"]})


def test_stored_queries_are_tools_and_follow_their_files(served: Served, call: Http) -> None:
    listed = {item["name"]: item for item in call.json("GET", f"{A}/queries")["queries"]}
    assert listed["find_person"]["params"] == [
        {"name": "name", "kind": "string", "nullable": False}
    ]
    assert listed["find_person"]["description"] == "One person by name."
    assert listed["set_age"]["mutation"] is True
    found = call.json("POST", f"{A}/queries/find_person", {"params": {"name": "A"}})
    assert found["rows"][0]["name"] == "A"
    call.fails(400, "POST", f"{A}/queries/find_person", {"params": {"name": 1}})
    wrong = {"params": {"name": "A"}, "expect_mutation": True}
    call.fails(400, "POST", f"{A}/queries/find_person", wrong)
    call.fails(404, "POST", f"{A}/queries/unknown", {})
    folder = served.server.config.graphs[0].queries
    assert folder is not None
    (folder / "more.gq").write_text(ALL)
    assert call.json("POST", f"{A}/queries/all")["row_count"] >= 4


def test_what_an_operator_has_to_mend_stands_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wrong.gq").write_text("query wrong( {")
    here, gone = str(tmp_path / "here.omni"), str(tmp_path / "gone.omni")
    og.init(here, SCHEMA).close()
    graphs = (GraphEntry(id="gone", uri=gone), GraphEntry(id="here", uri=here, queries=tmp_path))
    with serving(ServerConfig(graphs=graphs)) as found:
        call = Http(found, None)
        for _ in range(2):
            assert call.json("GET", "/graphs/here/queries") == {"queries": []}
            call.fails(503, "GET", "/graphs/gone/schema")
    first, second = (json.loads(record.message) for record in caplog.records)
    assert first["graph"] == "gone"
    assert gone in first["failure"]
    assert second["stored_queries"] == str(tmp_path / "wrong.gq")
