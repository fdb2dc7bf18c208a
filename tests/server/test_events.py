"""Events: a client hears of every commit, takes no thread of others, and is gone when it goes."""

import http.client
import json
from pathlib import Path

import omnigraph as og
from tests.server.support import G, config_of, send, until
from tests.serving import serving


def _next(answer: http.client.HTTPResponse) -> tuple[str, dict[str, str]]:
    """The next event, without comments."""
    fields: dict[str, str] = {}
    while line := answer.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    if "event" not in fields:
        return _next(answer)
    return fields["event"], json.loads(fields["data"])


def test_commits_are_told_until_the_client_leaves(tmp_path: Path) -> None:
    config = config_of(tmp_path, budgets={"event_streams": 2, "bulk_threads": 1})
    with serving(config) as served, og.open(config.graphs[0].uri) as graph:
        watching = [http.client.HTTPConnection(served.host, served.port) for _ in range(2)]
        answers = []
        for connection in watching:
            connection.request("GET", f"{G}/events")
            answers.append(connection.getresponse())
        for answer in answers:
            assert answer.headers["content-type"] == "text/event-stream"
            name, told = _next(answer)
            assert (name, told["graph_commit_id"]) == ("start", graph.snapshot().commit)
        # Two watch, and there is but one thread for bulk work.
        assert send(served, "GET", f"{G}/export")[0] == 200
        status, headers, _ = send(served, "GET", f"{G}/events")
        assert (status, headers["retry-after"]) == (429, "1")
        graph.mutate('query add() { insert Person { name: "A" } }')
        for answer in answers:
            name, told = _next(answer)
            assert (name, told["graph_commit_id"]) == ("head", graph.snapshot().commit)
        for connection, answer in zip(watching, answers, strict=True):
            answer.close()
            connection.close()
        until(lambda: not served.server.in_use["events"])


def test_a_branch_that_goes_ends_its_events(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with serving(config) as served, og.open(config.graphs[0].uri) as graph:
        assert send(served, "GET", f"{G}/events?branch=none")[0] == 404
        graph.branches.create("side")
        connection = http.client.HTTPConnection(served.host, served.port)
        connection.request("GET", f"{G}/events?branch=side")
        answer = connection.getresponse()
        assert _next(answer)[0] == "start"
        graph.branches.delete("side")
        assert _next(answer) == ("gone", {})
        assert answer.read() == b""
        connection.close()
