"""Traces for OpenTelemetry, where the user has installed and configured it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any


def is_traced() -> bool:
    """True if OpenTelemetry is imported, as it is where it is configured."""
    return "opentelemetry.trace" in sys.modules


def traced(name: str, headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Put a request into the trace that its headers name, or into a new one."""
    # Who has configured it has imported it.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return nullcontext()
    return _span(trace, name, headers)


@contextmanager
def _span(trace: Any, name: str, headers: Mapping[str, str]) -> Iterator[None]:
    from opentelemetry import propagate  # noqa: PLC0415

    parent = propagate.extract(dict(headers)) if "traceparent" in headers else None
    with trace.get_tracer("omnigraph.server").start_as_current_span(name, context=parent):
        yield
