"""Traces for OpenTelemetry, where the user has installed and configured it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _tracer() -> Any:
    if importlib.util.find_spec("opentelemetry") is None:
        return None
    from opentelemetry import trace  # noqa: PLC0415

    return trace.get_tracer("omnigraph.server")


@contextmanager
def traced(name: str, headers: Mapping[str, str]) -> Iterator[None]:
    """Put a request into the trace that its headers name, or into a new one."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    from opentelemetry import propagate  # noqa: PLC0415

    parent = propagate.extract(dict(headers)) if "traceparent" in headers else None
    with tracer.start_as_current_span(name, context=parent):
        yield
