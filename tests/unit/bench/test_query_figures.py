"""Comparing answers, judging times, and telling both."""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.query import chart, page
from bench.query.check import Agreement, common, ranked, same_rows
from bench.query.client import Client, EngineFailed
from bench.query.figures import Cell, Cold, Figures
from bench.query.prepare import Loaded
from bench.query.questions import QUESTIONS, Compared
from bench.query.worker import Worker, serve

MS = 1_000_000
Q1, Q2 = QUESTIONS[:2]


def figures(warm: Mapping[tuple[str, str], Cell]) -> Figures:
    return Figures(
        scale=1.0,
        questions=(Q1, Q2),
        loaded=tuple(
            Loaded(engine=name, version="1", seconds=1.0, bytes_on_disk=1 << 20)
            for name in ("omnigraph", "kuzu", "duckdb")
        ),
        warm=warm,
        cold={("kuzu", "Q1"): Cold(wall_ms=9.0, open_ms=1.0, first_ms=2.0, peak_bytes=1 << 20)},
        memory={"kuzu": 3 << 20},
    )


def cell(ms: float, *, right: bool = True) -> Cell:
    return Cell(samples=(int(ms * MS),) * 3, right=right, note="")


RUN = figures(
    {
        ("omnigraph", "Q1"): cell(1),
        ("kuzu", "Q1"): cell(8),
        ("duckdb", "Q1"): cell(0.5, right=False),
        ("omnigraph", "Q2"): cell(4),
        ("kuzu", "Q2"): cell(2),
        ("duckdb", "Q2"): Cell(note="failed"),
    }
)


def test_a_wrong_answer_is_nobodys_best() -> None:
    peer = RUN.best_peer(Q1)
    assert peer is not None
    assert peer[0] == "kuzu"
    assert (RUN.speedup(Q1), RUN.verdict(Q1)) == (8.0, "met")
    assert (RUN.speedup(Q2), RUN.verdict(Q2)) == (0.5, "MISSED")
    assert RUN.mean_speedup == pytest.approx(2.0)
    assert RUN.mean_verdict == "MISSED"


def test_without_a_right_answer_of_ours_nothing_is_compared() -> None:
    run = figures({("omnigraph", "Q1"): cell(1, right=False), ("kuzu", "Q1"): cell(8)})
    assert run.speedup(Q1) is None
    assert (run.mean_speedup, run.mean_verdict) == (None, "-")


def test_what_most_engines_say_is_right() -> None:
    answers = {
        "a": [[("x", 1.00000004), ("y", 2)]],
        "b": [[("y", 2), ("x", 1.0)]],
        "c": [[("x", 1.0)]],
    }
    agreed = common(answers)
    assert [same_rows(given, agreed).right for given in answers.values()] == [True, True, False]


BEST = [[("d1", 0.1), ("d2", 0.2), ("d3", 0.3), ("d4", 0.3)]]


@pytest.mark.parametrize(
    ("docs", "expected"),
    [
        ((("d1", 0.1), ("d2", 0.2)), Agreement(True, "1.00 of the best")),
        ((("d1", 0.1), ("d2", 0.2), ("d4", 0.3)), Agreement(True, "1.00 of the best")),
        ((("d1", 0.1), ("d9", 0.9)), Agreement(False, "0.50 of the best")),
        ((), Agreement(False, "0.00 of the best")),
    ],
)
def test_recall_counts_documents_not_rows(
    docs: tuple[tuple[str, float], ...], expected: Agreement
) -> None:
    rows = [(doc, "title", author, score) for doc, score in docs for author in "ab"]
    assert ranked(Compared.DISTANCES, [rows], BEST) == expected


def test_text_scores_must_be_the_right_ones() -> None:
    best = [[("d1", 9.0), ("d2", 8.0)]]
    assert ranked(Compared.SCORES, [[("d1", "t", "a", 9.001)]], best).right
    assert not ranked(Compared.SCORES, [[("d1", "t", "a", 9.5)]], best).right


def test_the_chart_has_a_bar_for_every_right_answer() -> None:
    root = ElementTree.fromstring(chart.draw(RUN))
    bars = [item for item in root if item.tag.endswith("rect")]
    assert [bar.get("class") for bar in bars] == ["ours", "peer", "ours", "peer"]
    widths = [float(bar.get("width", "0")) for bar in bars]
    # 1, 8, 4 and 2 ms
    assert widths[0] < widths[3] < widths[2] < widths[1]
    assert widths[0] > 0


def test_the_page_tells_figures_and_what_did_not_count() -> None:
    text = page.markdown(RUN, "method")
    assert "| Q1 point lookup | **1 ms (1 ms)** | 8 ms (8 ms) | - | kuzu | **8.0x** |" in text
    assert "| 9 ms (2 ms) |" in text
    assert "Q2, duckdb: not counted, failed." in text


def test_a_worker_tells_what_went_wrong_and_goes_on(tmp_path: Path) -> None:
    requests, replies = io.BytesIO(), io.BytesIO()
    asked: tuple[tuple[Any, ...], ...] = (("answer", "Q1", {}), ("version",))
    for request in asked:
        pickle.dump(request, requests)
    requests.seek(0)
    serve(Worker("omnigraph", tmp_path), requests, replies)
    replies.seek(0)
    outcomes: list[tuple[str, Any]] = [pickle.load(replies), pickle.load(replies)]
    assert [outcome for outcome, _ in outcomes] == ["failed", "done"]
    assert "KeyError" in outcomes[0][1]


def test_a_dead_engine_is_told_and_closes(tmp_path: Path) -> None:
    with Client("omnigraph", tmp_path) as client:
        with pytest.raises(EngineFailed, match="KeyError"):
            client.answer("Q1", {})
        assert client.alive
        client.kill()
        with pytest.raises(EngineFailed, match="died"):
            client.answer("Q1", {})
        assert not client.alive
