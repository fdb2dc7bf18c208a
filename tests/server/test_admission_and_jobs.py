"""Tokens, rates, deadlines, cancelled reads, and jobs that outlive their requests."""

import base64
import http.client
import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jwt
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput
from omnigraph.policy.authorization import AccessRequest, Permission
from omnigraph.runtime.clock import ManualClock
from omnigraph.server.auth import digest
from omnigraph.server.config import ServerConfig, read_config
from omnigraph.server.state import Server
from tests.server.support import ALL, G, config_of, send, until
from tests.serving import Served, serving

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NDJSON = "application/x-ndjson"


def write_tokens(path: Path, **actors: str) -> None:
    """One token per actor; `ada="2030-02-01"` expires then, and an empty text never."""
    listed = [
        {"sha256": digest(f"og_{name}"), "actor": name, "expires": until or None}
        for name, until in actors.items()
    ]
    path.write_text(json.dumps({"tokens": listed}))


def as_actor(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer og_{name}"}


def test_tokens_expire_and_are_read_anew(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.json", ada="2030-02-01T00:00:00", bo="")
    clock = ManualClock(now_us=int(NOW.timestamp() * 1_000_000))
    config = config_of(tmp_path, tokens=tmp_path / "tokens.json")
    with serving(config, clock=clock) as served:
        path = f"{G}/mutate"
        body = {"query": 'query q() { insert Person { name: "A" } }'}
        done = json.loads(send(served, "POST", path, body, **as_actor("ada"))[2])
        assert done["actor_id"] == done["commit"]["actor_id"] == "ada"
        spoofed = {**as_actor("bo"), "x_actor": "ada"}
        assert json.loads(send(served, "POST", path, body, **spoofed)[2])["actor_id"] == "bo"
        clock.advance(int(timedelta(days=40).total_seconds() * 1_000_000))
        assert send(served, "GET", f"{G}/snapshot", **as_actor("ada"))[0] == 401
        assert send(served, "GET", f"{G}/snapshot", **as_actor("bo"))[0] == 200
        write_tokens(tmp_path / "tokens.json", cy="")
        assert send(served, "GET", f"{G}/snapshot", **as_actor("bo"))[0] == 401
        assert send(served, "GET", f"{G}/snapshot", **as_actor("cy"))[0] == 200
        (tmp_path / "tokens.json").write_text("broken")
        assert send(served, "GET", f"{G}/snapshot", **as_actor("cy"))[0] == 200
        assert send(served, "GET", "/openapi.json")[0] == 200


def test_tokens_of_an_identity_provider(tmp_path: Path) -> None:
    secret = "s" * 32
    (tmp_path / "key").write_text(secret)
    settings = {
        "issuer": "https://id.example",
        "audience": "omnigraph",
        "algorithms": ["HS256"],
        "key_file": str(tmp_path / "key"),
    }
    claims = {"iss": "https://id.example", "aud": "omnigraph", "sub": "ada", "exp": 1 << 33}

    def status(served: Served, **changed: Any) -> int:
        token = jwt.encode({**claims, **changed}, changed.pop("key", secret), "HS256")
        return send(served, "GET", f"{G}/snapshot", authorization=f"Bearer {token}")[0]

    with serving(config_of(tmp_path, jwt=settings)) as served:
        assert status(served) == 200
        assert status(served, aud="other") == 401
        assert status(served, iss="https://evil.example") == 401
        assert status(served, exp=1) == 401
        forged = jwt.encode(claims, "f" * 32, "HS256")
        assert send(served, "GET", f"{G}/snapshot", authorization=f"Bearer {forged}")[0] == 401
        unsigned = jwt.encode(claims, None, "none")  # type: ignore[arg-type]
        assert send(served, "GET", f"{G}/snapshot", authorization=f"Bearer {unsigned}")[0] == 401


def test_the_keys_of_a_provider_lie_beside_the_configuration(tmp_path: Path) -> None:
    place = tmp_path / "server.yaml"
    jwt_settings = "{issuer: a, audience: b, algorithms: [HS256], key_file: key}"
    place.write_text(f"graphs: {{g: g.omni}}\njwt: {jwt_settings}\n")
    read = ServerConfig(**read_config(place))
    assert read.jwt is not None
    assert read.jwt["key_file"] == str(tmp_path / "key")
    with pytest.raises(InvalidInput, match="keys of the identity provider cannot be read"):
        Server(read)


def test_prefixes_of_loads_lie_beside_the_configuration(tmp_path: Path) -> None:
    place = tmp_path / "server.yaml"
    place.write_text("graphs: {g: g.omni}\nload_prefixes: [inbox, 's3://bucket/in', /in]\n")
    found = read_config(place)["load_prefixes"]
    assert found == (str(tmp_path / "inbox"), "s3://bucket/in", "/in")


class Provider(BaseHTTPRequestHandler):
    """An identity provider: its keys, how often they were asked for, and if it answers."""

    keys: ClassVar[list[dict[str, str]]] = []
    asked: ClassVar[list[str]] = []
    may_answer: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.may_answer.wait(60)
        body = json.dumps({"keys": self.keys}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_keys_of_a_provider_are_fetched_while_others_are_answered(tmp_path: Path) -> None:
    secret = b"s" * 32
    named = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    Provider.keys[:] = [{"kty": "oct", "kid": "k1", "k": named, "alg": "HS256"}]
    Provider.asked.clear()
    Provider.may_answer.clear()
    claims = {"iss": "https://id.example", "aud": "omnigraph", "sub": "ada", "exp": 1 << 33}

    def header(key: bytes = secret, kid: str = "k1") -> dict[str, str]:
        token = jwt.encode(claims, key, "HS256", {"kid": kid})
        return {"authorization": f"Bearer {token}"}

    provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    settings = {
        "issuer": "https://id.example",
        "audience": "omnigraph",
        "algorithms": ["HS256"],
        "jwks_url": f"http://127.0.0.1:{provider.server_port}/keys",
    }
    clock = ManualClock(now_us=1)
    with serving(config_of(tmp_path, jwt=settings), clock=clock) as served:
        found: list[int] = []

        def ask() -> None:
            found.append(send(served, "GET", f"{G}/snapshot", **header())[0])

        waiting = [threading.Thread(target=ask) for _ in range(3)]
        for each in waiting:
            each.start()
        until(lambda: Provider.asked)
        assert send(served, "GET", "/healthz")[0] == 200
        Provider.may_answer.set()
        for each in waiting:
            each.join()
        assert found == [200] * 3
        for number in range(20):
            assert send(served, "GET", f"{G}/snapshot", **header(kid=f"k{number}x"))[0] == 401
        assert send(served, "GET", f"{G}/snapshot", **header(b"f" * 32))[0] == 401
        assert len(Provider.asked) == 1
        Provider.keys[0]["kid"] = "k2"
        clock.advance(31_000_000)
        assert send(served, "GET", f"{G}/snapshot", **header(kid="k2"))[0] == 200
        assert len(Provider.asked) == 2
    provider.shutdown()
    provider.server_close()


def test_a_provider_that_is_away_is_no_fault_of_the_token(tmp_path: Path) -> None:
    settings = {
        "issuer": "https://id.example",
        "audience": "omnigraph",
        "algorithms": ["HS256"],
        "jwks_url": "http://127.0.0.1:9/keys",
    }
    token = jwt.encode({"sub": "ada"}, "s" * 32, "HS256", {"kid": "k1"})
    with serving(config_of(tmp_path, jwt=settings)) as served:
        status, _, found = send(served, "GET", f"{G}/snapshot", authorization=f"Bearer {token}")
    assert (status, json.loads(found)["graph_error"]["code"]) == (503, "unavailable")


def test_without_tokens_only_this_machine_is_served(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="loopback"):
        config_of(tmp_path, host="0.0.0.0")
    assert config_of(tmp_path, host="0.0.0.0", unauthenticated=True).is_open
    entry = config_of(tmp_path).graphs[0]
    with pytest.raises(InvalidInput, match="twice"):
        ServerConfig(graphs=(entry, entry))


def test_an_actor_that_asks_too_often_waits(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.json", ada="", bo="")
    clock = ManualClock(now_us=1)
    config = config_of(
        tmp_path, tokens=tmp_path / "tokens.json", budgets={"requests_per_second": 2}
    )
    with serving(config, clock=clock) as served:
        statuses = [send(served, "GET", f"{G}/snapshot", **as_actor("ada"))[0] for _ in range(3)]
        assert statuses == [200, 200, 429]
        status, headers, found = send(served, "GET", f"{G}/snapshot", **as_actor("ada"))
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(found)["code"] == "too_many_requests"
        assert send(served, "GET", f"{G}/snapshot", **as_actor("bo"))[0] == 200
        clock.advance(1_000_000)
        assert send(served, "GET", f"{G}/snapshot", **as_actor("ada"))[0] == 200


def test_an_actor_has_so_many_bytes_in_flight(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.json", ada="", bo="")
    tokens = tmp_path / "tokens.json"
    with serving(
        config_of(tmp_path, tokens=tokens, budgets={"body_bytes_per_actor": 200})
    ) as served:
        slow = http.client.HTTPConnection(served.host, served.port)
        slow.putrequest("POST", f"{G}/query")
        slow.putheader("authorization", "Bearer og_ada")
        slow.putheader("content-length", "190")
        slow.endheaders(b" " * 150)
        until(lambda: served.server.admission.in_flight("body_bytes_per_actor") == 150)
        body = {"query": ALL}
        status, headers, found = send(served, "POST", f"{G}/query", body, **as_actor("ada"))
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(found)["graph_error"]["details"]["limit"] == "body_bytes_per_actor"
        assert send(served, "POST", f"{G}/query", body, **as_actor("bo"))[0] == 200
        slow.close()
        until(lambda: not served.server.admission.in_flight("body_bytes_per_actor"))
        assert send(served, "POST", f"{G}/query", body, **as_actor("ada"))[0] == 200
        # No waiting helps what is too large alone.
        large = {"query": ALL, "name": "n" * 300}
        status, _, found = send(served, "POST", f"{G}/query", large, **as_actor("ada"))
        assert (status, json.loads(found)["resource_limit"]["resource"]) == (
            413,
            "body_bytes_per_actor",
        )
        load = f"{G}/load/ndjson"
        large_load = b"\n" * 5_000_000
        found = send(served, "POST", load, large_load, content_type=NDJSON, **as_actor("ada"))[2]
        assert json.loads(found)["resource_limit"]["resource"] == "body_bytes_per_actor"
        assert not served.server.admission.in_flight("body_bytes_per_actor")


def test_an_actor_has_so_many_loads_at_once(tmp_path: Path) -> None:
    with serving(config_of(tmp_path, budgets={"loads_per_actor": 1})) as served:
        slow = http.client.HTTPConnection(served.host, served.port)
        slow.putrequest("POST", f"{G}/load/ndjson")
        slow.putheader("content-type", NDJSON)
        slow.putheader("content-length", "10")
        slow.endheaders(b"    ")
        until(lambda: served.server.in_use["bulk"])
        status, headers, _ = send(served, "POST", f"{G}/load/ndjson", b"\n", content_type=NDJSON)
        assert (status, headers["retry-after"]) == (429, "1")
        slow.close()
        until(lambda: not served.server.in_use["bulk"])
        done = send(served, "POST", f"{G}/load/ndjson", b"\n", content_type=NDJSON)
        assert done[0] == 200, done


def test_a_query_has_a_deadline_and_a_client_that_leaves_ends_it(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with og.open(config.graphs[0].uri) as graph:
        graph.load({"Person": [{"name": f"p{number:04}"} for number in range(3000)]})
    pairs = (
        "query q() { match { $a: Person  $b: Person  $c: Person  "
        "$a.name < $b.name  $b.name < $c.name } return { count($a) as n } }"
    )
    with serving(config) as served:
        status, _, found = send(served, "POST", f"{G}/query", {"query": pairs, "timeout": 0.05})
        assert status in (408, 413), found
        connection = http.client.HTTPConnection(served.host, served.port)
        connection.request("POST", f"{G}/query", json.dumps({"query": ALL}))
        connection.close()
        until(lambda: not served.server.in_use["read"])
        text = send(served, "GET", "/metrics")[2].decode()
        assert 'omnigraph_requests_total{route="cluster_query"' in text


def test_jobs_are_done_kept_and_expire(tmp_path: Path) -> None:
    clock = ManualClock(now_us=1_000_000)
    config = config_of(tmp_path, jobs=tmp_path / "jobs")
    with serving(config, clock=clock) as served:
        send(served, "POST", f"{G}/load", {"data": '{"type":"Person","data":{"name":"A"}}\n'})
        status, headers, _ = send(served, "POST", f"{G}/jobs", {"kind": "export"})
        assert status == 202
        path = headers["location"]

        def done() -> Any:
            shown = json.loads(send(served, "GET", path)[2])
            return shown if shown["status"] == "done" else None

        job = until(done)
        assert job["result"]["rows"]["node:Person"] == 1
        link = job["parts"][0]["url"]
        assert send(served, "GET", link)[0] == 200
        assert send(served, "GET", link.replace("signature=", "signature=0"))[0] == 403
    # Another server finds the job where the first one left it.
    with serving(config, clock=clock) as served:
        assert json.loads(send(served, "GET", path)[2])["status"] == "done"
        assert send(served, "GET", link)[0] == 200
        clock.advance(25 * 3600 * 1_000_000)
        assert send(served, "GET", path)[0] == 410
        _, headers, _ = send(served, "POST", f"{G}/jobs", {"kind": "optimize"})
        second = headers["location"]
        assert send(served, "DELETE", second)[0] == 200
        assert json.loads(send(served, "GET", second)[2])["status"] == "cancelled"
        assert send(served, "GET", f"{G}/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV")[0] == 404


def test_a_link_gives_what_the_actor_of_its_job_may_have(tmp_path: Path) -> None:
    class Asked:
        """A policy that remembers who was to be let in where."""

        def __init__(self) -> None:
            self.seen: list[tuple[str | None, Permission, str | None]] = []

        def authorise(self, request: AccessRequest) -> None:
            self.seen.append((request.actor, request.action, request.branch))

    policy = Asked()
    write_tokens(tmp_path / "tokens.json", ada="")
    ada = as_actor("ada")
    config = config_of(tmp_path, jobs=tmp_path / "jobs", tokens=tmp_path / "tokens.json")
    with serving(config, policy=policy) as served:
        asked = {"kind": "export", "branch": "main"}
        path = send(served, "POST", f"{G}/jobs", asked, **ada)[1]["location"]
        job = until(
            lambda: (shown := json.loads(send(served, "GET", path, **ada)[2]))["parts"] and shown
        )
        policy.seen.clear()
        assert send(served, "GET", job["parts"][0]["url"])[0] == 200
        assert policy.seen == [("ada", Permission.EXPORT, "main")]
        assert send(served, "GET", f"{path}x/parts/y?expires=1&signature=z")[0] == 404


def test_a_merge_as_a_job_settles_its_conflicts(tmp_path: Path) -> None:
    config = config_of(tmp_path, jobs=tmp_path / "jobs")
    with og.open(config.graphs[0].uri) as graph:
        set_age = 'query q($a: I32) { update Person set { age: $a } where name = "A" }'
        graph.load({"Person": [{"name": "A", "age": 1}]})
        graph.branches.create("draft")
        graph.mutate(set_age, {"a": 2}, branch="draft")
        graph.mutate(set_age, {"a": 3})
        planned = graph.branches.merge("draft", dry_run=True)
        planned.write_resolutions(tmp_path / "c.jsonl")
    line = {**json.loads((tmp_path / "c.jsonl").read_text()), "choice": "value"}
    text = json.dumps({**line, "value": {"age": 9}})
    asked = {"kind": "merge", "source": "draft", "delete_branch": True}
    with serving(config) as served:

        def ended(**more: Any) -> Any:
            path = send(served, "POST", f"{G}/jobs", {**asked, **more})[1]["location"]
            shown = until(
                lambda: (
                    found
                    if (found := json.loads(send(served, "GET", path)[2]))["status"]
                    not in ("queued", "running")
                    else None
                )
            )
            return shown

        assert ended()["error"]["code"] == "merge_conflict"
        refused = {**asked, "resolve": {"text": "nonsense"}}
        assert send(served, "POST", f"{G}/jobs", refused)[0] == 400
        done = ended(resolve={"text": text})
        assert (done["status"], done["result"]["branch_deleted"]) == ("done", True), done
        ask = "query q() { match { $p: Person } return { $p.age as age } }"
        found = json.loads(send(served, "POST", f"{G}/query", {"query": ask})[2])
        assert found["rows"] == [{"age": 9}]
