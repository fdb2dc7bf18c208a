"""Small requests as clients send them: in pieces, together, cut short; the answer is the same."""

import gc
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.runtime.clock import ManualClock
from omnigraph.server.exchange import Exchange
from omnigraph.server.protocol import Arrival
from tests.server.support import G, config_of, raw, send
from tests.server.test_admission_and_jobs import as_actor, write_tokens
from tests.serving import Served, serving

ONE = "query one($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"


def request(*more: str, body: bytes | None = None, version: str = "1.1") -> bytes:
    """A warm read as bytes."""
    asked = json.dumps({"query": ONE, "params": {"n": "Ada"}}).encode() if body is None else body
    head = [f"POST {G}/query HTTP/{version}", "Host: x", f"Content-Length: {len(asked)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + asked


LAST = request("Connection: close")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("once")
    with serving(config_of(folder, budgets={"body_idle_seconds": 1})) as found:
        with og.open(folder / "g.omni") as graph:
            graph.mutate('query add() { insert Person { name: "Ada", age: 36 } }')
        for _ in range(4):
            assert raw(found, LAST).endswith(b"}")
        yield found


def ages(answers: bytes) -> list[int]:
    """The ages of all answers, one behind the other."""
    decoder, found = json.JSONDecoder(), []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        answer, end = decoder.raw_decode(answers.decode())
        assert f"content-length: {end}".encode() in head
        answers = answers[end:]
        found += [row["age"] for row in answer["rows"]]
    return found


def test_it_does_not_matter_in_which_pieces_a_request_comes(served: Served) -> None:
    middle = LAST.index(b"\r\n\r\n") + 4
    assert ages(raw(served, LAST)) == [36]
    assert ages(raw(served, LAST[:middle], LAST[middle:])) == [36]
    assert ages(raw(served, *(LAST[at : at + 40] for at in range(0, len(LAST), 40)))) == [36]
    large = request("Connection: close", body=LAST[middle:] + b" " * 50_000)
    assert ages(raw(served, large)) == [36]


def test_requests_that_come_together_are_answered_in_their_order(served: Served) -> None:
    wrong = request(body=b"{")
    assert ages(raw(served, request() * 50 + LAST)) == [36] * 51
    answers = raw(served, request() + wrong + request() + request()[:-3], request()[-3:] + LAST)
    statuses = [each[:3] for each in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"400", b"200", b"200", b"200"]


def test_what_was_answered_leaves_nothing_to_the_collector(served: Served) -> None:
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert ages(raw(served, request() * 20 + LAST)) == [36] * 21
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, Arrival | Exchange)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == []


def test_a_connection_is_closed_when_nothing_comes_any_more(tmp_path: Path) -> None:
    with serving(config_of(tmp_path), idle_seconds=1) as found:
        assert raw(found, request(), request()).count(b"HTTP/1.1 200 OK") == 2


def test_who_speaks_an_older_protocol_is_answered_once(served: Served) -> None:
    answer = raw(served, request(version="1.0") + request())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in answer


def test_a_body_that_does_not_come_is_waited_for_as_long_as_the_budget_says(
    served: Served,
) -> None:
    answer = raw(served, LAST[:-5])
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"body_idle_seconds" in answer


def test_a_client_that_leaves_within_a_body_harms_nobody(served: Served) -> None:
    for _ in range(20):
        with socket.create_connection((served.host, served.port)) as connection:
            connection.sendall(LAST[:-5])
    assert ages(raw(served, LAST)) == [36]


def test_a_read_at_once_is_let_in_and_counted_like_any_other(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.json", ada="")
    clock = ManualClock(now_us=1)
    config = config_of(
        tmp_path, tokens=tmp_path / "tokens.json", budgets={"requests_per_second": 6}
    )
    body = {"query": ONE, "params": {"n": "Ada"}}
    with serving(config, clock=clock) as served:
        answers = [send(served, "POST", f"{G}/query", body, **as_actor("ada")) for _ in range(8)]
        assert [status for status, _, _ in answers] == [200] * 6 + [429] * 2
        assert answers[-1][1]["retry-after"] == "1"
        assert send(served, "POST", f"{G}/query", body)[0] == 401
        assert send(served, "POST", f"{G}/query", body, **as_actor("bo"))[0] == 401
        assert send(served, "POST", "/graphs/other/query", body, **as_actor("ada"))[0] == 429
        clock.advance(1_000_000)
        assert send(served, "POST", "/graphs/other/query", body, **as_actor("ada"))[0] == 404
        counted = served.server.metrics.requests
        assert counted["cluster_query", 200] == 6
        assert counted["cluster_query", 429] == 3
        assert served.server.admission.in_flight("body_bytes_per_actor") == 0
