"""Hostile requests: typed answers, and the server goes on."""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.server.protocol import GuardedProtocol
from tests.server.support import ALL, G, config_of, names, raw, send, until
from tests.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GuardedProtocol, "header_seconds", 0.5)
        with serving(config_of(tmp_path_factory.mktemp("hostile"))) as found:
            yield found


@pytest.fixture(autouse=True)
def _lives(served: Served) -> Iterator[None]:
    yield
    assert names(served) == []


def status(answer: bytes) -> int:
    return int(answer.split(None, 2)[1])


GET = f"GET {G}/snapshot HTTP/1.1\r\nHost: x\r\n".encode()


def test_headers_are_bounded_in_bytes_lines_and_time(served: Served) -> None:
    assert status(raw(served, GET, b"X-A: " + b"a" * (1 << 20) + b"\r\n\r\n")) == 431
    assert status(raw(served, GET, b"X-A: b\r\n" * 5000, b"\r\n")) == 431
    assert status(raw(served, GET + b"X-Slow: ")) == 408
    with socket.create_connection((served.host, served.port), timeout=30) as silent:
        assert status(silent.recv(1000)) == 408
    answers = raw(served, GET + b"\r\n" + GET + b"X-Slow: ")
    assert answers.count(b"HTTP/1.1 200") == answers.count(b"HTTP/1.1 408") == 1


def test_a_length_is_said_in_one_way(served: Served) -> None:
    post = f"POST {G}/query HTTP/1.1\r\nHost: x\r\n".encode()
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    answer = raw(served, post + both)
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1") == 1
    twice = b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"
    assert status(raw(served, post + twice)) == 400
    assert status(raw(served, post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")) == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"query": 1}',
        b'{"query": "x", "params": []}',
        b'{"query": "x", "timeout": -1}',
        b'{"query": "' + b"(" * 100_000 + b'"}',
        b'{"query": "x", "params": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
)
def test_bodies_of_the_wrong_shape_are_refused(served: Served, body: bytes) -> None:
    answered, _, found = send(served, "POST", f"{G}/query", body)
    assert answered == 400
    assert json.loads(found)["code"] == "bad_request"


def test_a_large_body_is_refused_before_it_is_read(served: Served) -> None:
    answered, _, found = send(served, "POST", f"{G}/query", {"query": "x" * (2 << 20)})
    assert answered == 413
    assert json.loads(found)["resource_limit"]["resource"] == "body_bytes"
    post = f"POST {G}/query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    assert status(raw(served, post, chunk, chunk)) == 413


@pytest.mark.parametrize(
    "path",
    [
        "/graphs/../etc/passwd",
        "/graphs/%2e%2e/%2e%2e/snapshot",
        "/graphs/g%00/snapshot",
        f"{G}/branches/..%2F..%2Fx",
        f"{G}/blob?entity=node&type=..&id=..&property=..",
        f"{G}/commits/..%2F..",
        f"{G}/jobs/..%2Fsecret",
        f"{G}//snapshot",
        f"{G}/snapshot/",
        f"{G}/snapshot?branch=a&branch=b",
        f"{G}/commits?limit=0",
        f"{G}/commits?cursor=x",
        f"{G}/changes?page_token=%FF%FE",
        f"{G}/diff?from=main&page_token=AAAA",
        f"{G}/export?at=%27%3B--",
    ],
)
def test_tricks_with_paths_find_nothing(served: Served, path: str) -> None:
    answered, _, found = send(served, "GET", path)
    assert answered in (400, 404), found
    assert b"Traceback" not in found
    assert b"/tmp" not in found


def test_headers_do_not_choose_the_actor_or_break_answers(served: Served) -> None:
    headers = {"x_actor": "root", "x_request_id": "a\tb", "x_forwarded_user": "root"}
    answered, found, _ = send(served, "POST", f"{G}/query", {"query": ALL}, **headers)
    assert answered == 200
    assert found["x-request-id"] != "a\tb"
    _, found, _ = send(served, "GET", "/healthz", x_request_id="mine-1", omnigraph_http_api="0.13")
    assert (found["x-request-id"], found["omnigraph-http-api"]) == ("mine-1", "0.13")


def test_a_load_that_is_refused_keeps_its_connection(served: Served) -> None:
    body = b'{"type": "Person", "data": {"nme": "Ada"}}'
    for media, encoding in (("application/x-ndjson", "identity"), ("application/x-ndjson", "br")):
        path = f"{G}/load?mode=append"
        more = {"content_type": media, "content_encoding": encoding}
        found, headers, _ = send(served, "POST", path, body, **more)
        assert (found in {400, 415}, headers.get("connection")) == (True, None)


def test_what_is_no_http_is_refused_as_json(served: Served) -> None:
    for text in (b"\x16\x03\x01\x02" + b"\x00" * 200, b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n"):
        answer = raw(served, text)
        assert (status(answer), json.loads(answer.partition(b"\r\n\r\n")[2])) == (
            400,
            {"error": "bad request"},
        )


def test_clients_that_do_not_read_their_answers_stop_nobody(tmp_path: Path) -> None:
    bounds = {"body_idle_seconds": 1, "read_threads": 1, "bulk_threads": 1}
    config = config_of(tmp_path, budgets=bounds)
    with og.open(config.graphs[0].uri) as graph:
        graph.load({"Person": [{"name": "Ada", "avatar": bytes(20 << 20)}]})
    path = f"{G}/blob?entity=node&type=Person&id=Ada&property=avatar"
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(config) as served, ExitStack() as kept:
        silent = [
            kept.enter_context(socket.create_connection((served.host, served.port)))
            for _ in range(3)
        ]
        for each in silent:
            each.sendall(asked.encode())
        until(lambda: served.server.in_use["bulk"])
        assert names(served) == ["Ada"]
        assert send(served, "GET", f"{G}/export?types=Knows")[0] == 200


def test_a_body_that_comes_byte_by_byte_is_refused(tmp_path: Path) -> None:
    head = f"POST {G}/load/ndjson HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
    with serving(config_of(tmp_path, budgets={"body_idle_seconds": 1})) as served:
        with socket.create_connection((served.host, served.port)) as connection:
            connection.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
            while not select.select([connection], [], [], 0.1)[0]:
                connection.sendall(b" ")
            assert status(connection.recv(1000)) == 408
        assert names(served) == []
