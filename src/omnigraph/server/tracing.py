"""Traces for OpenTelemetry, where the user has installed and configured it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from omnigraph.server.routes import Route

Noted = Callable[[int], None]


def is_traced() -> bool:
    """True if OpenTelemetry is imported, as it is where it is configured."""
    return "opentelemetry.trace" in sys.modules


def traced(route: Route, headers: Mapping[str, str]) -> AbstractContextManager[Noted]:
    """Put a request into the trace that its headers name, or into a new one.

    The block is given a function that notes the status of the answer. Errors are not recorded, for
    their messages quote queries and values.
    """
    # Who has configured it has imported it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return nullcontext(_unnoted)
    return _span(trace, route, headers)


def _unnoted(status: int) -> None:
    pass


@contextmanager
def _span(trace: Any, route: Route, headers: Mapping[str, str]) -> Iterator[Noted]:
    from opentelemetry import propagate  # noqa: PLC0415

    parent = propagate.extract(dict(headers)) if "traceparent" in headers else None
    with trace.get_tracer("omnigraph.server").start_as_current_span(
        route.name,
        context=parent,
        kind=trace.SpanKind.SERVER,
        attributes={"http.request.method": route.method, "http.route": route.path},
        record_exception=False,
    ) as span:

        def noted(status: int) -> None:
            span.set_attribute("http.response.status_code", status)
            # By the conventions of OpenTelemetry, a mistake of the client is no error of the span.
            if status >= 500:
                span.set_status(trace.StatusCode.ERROR)

        yield noted
