"""Spans, counters and the operation id follow the work, onto threads as well."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import Code, Internal
from omnigraph.runtime import telemetry
from omnigraph.runtime.telemetry import TraceSpan


def test_a_listener_hears_what_ended_and_how() -> None:
    heard: list[TraceSpan] = []
    with telemetry.listening(heard.append), telemetry.operation("op-1"):
        with telemetry.span("outer", table="node:Person"), telemetry.span("inner"):
            pass
        with pytest.raises(Internal), telemetry.span("failing"):
            raise Internal(Code.INTERNAL, "broken")
        with pytest.raises(KeyError), telemetry.span("foreign"):
            raise KeyError("x")
    assert [(span.name, span.op_id, span.failure) for span in heard] == [
        ("inner", "op-1", None),
        ("outer", "op-1", None),
        ("failing", "op-1", "internal"),
        ("foreign", "op-1", "KeyError"),
    ]
    assert heard[1].fields == {"table": "node:Person"}
    assert heard[1].elapsed_ns >= heard[0].elapsed_ns >= 0


def test_spans_are_debug_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="omnigraph"), telemetry.span("write.land", rows=3):
        pass
    (record,) = caplog.records
    assert (record.name, record.levelno, record.message) == (
        "omnigraph",
        logging.DEBUG,
        "write.land",
    )
    assert vars(record)["span"].fields == {"rows": 3}


def test_nobody_listening_means_no_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="omnigraph"):
        with telemetry.span("quiet"):
            pass
        with pytest.raises(KeyError), telemetry.span("quiet"):
            raise KeyError("passes through")
    assert caplog.records == []


def test_counters_nest() -> None:
    telemetry.count("store.get")
    with telemetry.counting() as all_calls:
        telemetry.count("store.get")
        with telemetry.counting() as some_calls:
            telemetry.count("store.put", 2)
    assert all_calls.snapshot() == {"store.get": 1, "store.put": 2}
    assert some_calls.snapshot() == {"store.put": 2}


def test_operations_nest_and_end() -> None:
    assert telemetry.current_op_id() is None
    with telemetry.operation("outer"):
        with telemetry.operation("inner"):
            assert telemetry.current_op_id() == "inner"
        assert telemetry.current_op_id() == "outer"
    assert telemetry.current_op_id() is None


def test_work_carried_to_threads_stays_with_its_operation() -> None:
    def work(amount: int) -> str | None:
        telemetry.count("rows", amount)
        return telemetry.current_op_id()

    with ThreadPoolExecutor(4) as pool, telemetry.operation("op"), telemetry.counting() as counts:
        assert set(pool.map(telemetry.carried(work), range(50))) == {"op"}
        assert list(pool.map(work, [1])) == [None]
    assert counts.snapshot() == {"rows": sum(range(50))}
