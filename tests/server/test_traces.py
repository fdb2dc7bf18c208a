"""Traces of OpenTelemetry: a request joins the one that its headers name."""

from pathlib import Path

import pytest

import omnigraph as og
from tests.server.support import ALL, SCHEMA, G, send
from tests.serving import launched

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
# What Python imports before a program: here, as a user configures it.
CONFIGURED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, ConsoleSpanExporter

def line(span):
    status, found = span.status.status_code.name, span.attributes["http.response.status_code"]
    return (
        f"{span.name} {span.context.trace_id:032x} {span.parent and span.parent.span_id:016x}\\n"
        f"{span.name} {span.kind.name} {status} {found} {len(span.events)}\\n"
    )

spans = ConsoleSpanExporter(out=sys.stderr, formatter=line)
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
"""


def test_requests_join_the_trace_of_their_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configured").mkdir()
    (tmp_path / "configured" / "sitecustomize.py").write_text(CONFIGURED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "configured"))
    og.init(tmp_path / "g.omni", SCHEMA).close()
    with launched(str(tmp_path / "g.omni"), log=tmp_path / "log") as served:
        named = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        assert send(served, "POST", f"{G}/query", {"query": ALL}, **named)[0] == 200
        assert send(served, "GET", f"{G}/branches/none", **named)[0] == 404
    log = (tmp_path / "log").read_text()
    for route in ("cluster_query", "cluster_show_branch"):
        assert f"{route} {TRACE} {SPAN}\n" in log
    # A mistake of a client is no error of the server, and no message is in a span.
    assert "cluster_query SERVER UNSET 200 0\n" in log
    assert "cluster_show_branch SERVER UNSET 404 0\n" in log
