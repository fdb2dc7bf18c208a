"""A graph of four times the memory that a query may take answers the benchmark's questions."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from bench.outgrown import TIMES, compared, on_spark, prepare
from bench.query.questions import QUESTIONS
from omnigraph.dataplane.spark.session import HeldSession

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]


def test_every_question_is_answered(tmp_path: Path, local: HeldSession) -> None:
    place, params, size = prepare(tmp_path, 0.04)
    there = on_spark(place, params, size // TIMES, local.master)
    answers = list(compared(place, params, size // TIMES, there))
    assert {item.question.name: item.same for item in answers} == {
        question.name: True for question in QUESTIONS
    }
    refused = [item.question for item in answers if not item.fits]
    assert refused, "the bound must matter"
    settings = og.Settings(query_bytes_max=size // TIMES)
    with og.open(place, "r", settings=settings) as graph:
        for question in refused:
            rows = graph.query(question.text, params[question.name][0], spark=local.session)
            assert type(rows).__name__ == "SparkRows", question.name
