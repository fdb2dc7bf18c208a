from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.embed.local import MockEmbedder
from omnigraph.embed.provider import Purpose
from omnigraph.embed.source import Embeddings
from omnigraph.errors import InvalidInput, LimitExceeded
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.search.search import QUERY_WORDS_MAX, Search
from omnigraph.exec.tuning import tuned
from omnigraph.lang.ir.expr import (
    Bm25,
    Const,
    ConstValue,
    Nearest,
    Param,
    Ranking,
    Rrf,
    TextMatch,
    TextMode,
)
from omnigraph.lang.values import Base, ValueType
from omnigraph.types import Metric
from tests.unit.exec.search.column_view import DOC, ColumnView

TEXT = ValueType(Base.STRING)
NUMBER = ValueType(Base.I64)
PAIR = ValueType(Base.VECTOR, dim=2)

BODIES = ["red apple", "green apple pie", None, "red red wine", "blue sky", "apple red"]
SPOTS = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), None, (-1.0, 0.0), (1.0, 0.0)]


def view(ids: list[str] | None = None) -> ColumnView:
    columns = {
        "body": pa.array(BODIES, pa.string()),
        "spot": pa.array(SPOTS, pa.list_(pa.float32(), 2)),
    }
    return ColumnView(columns, ids)


def context(params: Mapping[str, ConstValue] | None = None) -> EvalContext:
    return EvalContext(params or {}, 0)


def handles(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def bm25(text: str) -> Bm25:
    return Bm25("d", "body", Const(text, TEXT))


def nearest(*spot: float, metric: Metric = Metric.L2) -> Nearest:
    return Nearest("d", "spot", 2, metric, Const(spot, PAIR), None)


def rrf(k: int = 60) -> Rrf:
    return Rrf(bm25("red apple"), nearest(1.0, 0.0), Const(k, NUMBER))


def matching(mode: TextMode, text: str, edits: int | None = None) -> list[int]:
    wanted = None if edits is None else Const(edits, NUMBER)
    match = TextMatch(mode, "d", "body", Const(text, TEXT), wanted)
    found = Search().matches(match, DOC, view(), context())
    return [int(place) for place in np.flatnonzero(found)]


def test_the_three_ways_to_match() -> None:
    assert matching(TextMode.SEARCH, "Apples sky") == [0, 1, 4, 5]
    assert matching(TextMode.PHRASE, "red apples") == [0]
    assert matching(TextMode.FUZZY, "appel", 2) == [0, 1, 5]
    assert matching(TextMode.FUZZY, "wint", 1) == [3]
    assert matching(TextMode.SEARCH, "...") == []


def test_a_parameter_may_be_the_query_and_the_edits() -> None:
    match = TextMatch(TextMode.FUZZY, "d", "body", Param("q", TEXT), Param("n", NUMBER))
    found = Search().matches(match, DOC, view(), context({"q": "skye", "n": 1}))
    assert np.flatnonzero(found).tolist() == [4]
    with pytest.raises(InvalidInput):
        Search().matches(match, DOC, view(), context({"q": "skye", "n": 3}))


def test_a_query_of_too_many_words_is_refused() -> None:
    match = TextMatch(TextMode.SEARCH, "d", "body", Param("q", TEXT))
    with pytest.raises(LimitExceeded) as caught:
        Search().matches(match, DOC, view(), context({"q": "a " * (QUERY_WORDS_MAX + 1)}))
    assert caught.value.details["limit"] == "query_words"


def test_values_are_gathered_for_the_handles_in_their_order() -> None:
    numbers, valid = Search().values(nearest(1, 0), DOC, view(), handles(4, 3, 0, 2), context())
    assert valid.tolist() == [True, False, True, True]
    assert numbers[valid].tolist() == [4.0, 0.0, 1.0]
    numbers, valid = Search().values(bm25("wine"), DOC, view(), handles(3, 0), context())
    assert valid.tolist() == [True, False]
    everyone, _ = Search().values(bm25("wine"), DOC, view(), handles(0, 1, 2, 3), context())
    assert numbers[0] == everyone[3]  # statistics do not depend on who is asked for


def test_the_best_come_in_order_with_ties_by_id() -> None:
    there = view(ids=["f", "e", "d", "c", "b", "a"])
    top = Search().best(nearest(1, 0), DOC, there, None, 1, context())
    assert top.handles.tolist() == [5, 0]
    assert top.numbers.tolist() == [0.0, 0.0]
    top = Search().best(bm25("apple"), DOC, there, handles(0, 1, 4), 5, context())
    assert top.handles.tolist() == [0, 1]


def test_fusion_counts_ranks_over_the_candidates() -> None:
    numbers, valid = Search().values(rrf(), DOC, view(), handles(0, 1, 2, 3, 4), context())
    # Text: 0 (both terms), 3 (red twice), 1; vectors: 0, 2, 1, 4.
    expected = [1 / 61 + 1 / 61, 1 / 63 + 1 / 63, 1 / 62, 1 / 62, 1 / 64]
    assert numbers.tolist() == pytest.approx(expected)
    assert valid.all()


def test_nobody_without_a_value_in_both_rankings_has_a_fused_one() -> None:
    fused = Rrf(bm25("wine"), nearest(1, 0), Const(60, NUMBER))
    columns = {
        "body": pa.array(["wine", "beer"], pa.string()),
        "spot": pa.array([None, None], pa.list_(pa.float32(), 2)),
    }
    _, valid = Search().values(fused, DOC, ColumnView(columns), handles(0, 1), context())
    assert valid.tolist() == [True, False]


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=4).map(" ".join)
SPOT = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1.0])] * 2)


@given(
    st.lists(st.tuples(st.none() | WORDS, st.none() | SPOT), min_size=1, max_size=25),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["bm25", "nearest", "rrf"]),
    st.booleans(),
    st.data(),
)
def test_the_best_equal_the_best_of_all_values(
    rows: list[tuple[str | None, tuple[float, ...] | None]],
    count: int,
    k: int,
    kind: str,
    few: bool,
    data: st.DataObject,
) -> None:
    columns = {
        "body": pa.array([row[0] for row in rows], pa.string()),
        "spot": pa.array([row[1] for row in rows], pa.list_(pa.float32(), 2)),
    }
    ids = data.draw(st.permutations([f"{place:02}" for place in range(len(rows))]))
    there = ColumnView(columns, ids)
    first, second = bm25("a b"), nearest(1, 0.5)
    kinds: dict[str, Ranking] = {"bm25": first, "nearest": second}
    ranking = kinds.get(kind) or Rrf(first, second, Const(k, NUMBER))
    everyone = np.arange(len(rows), dtype=np.int32)
    chosen = everyone[data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))]
    handles = None if data.draw(st.booleans()) else chosen
    with tuned(exact_candidates_max=10_000 if few else 0):
        top = Search().best(ranking, DOC, there, handles, count, context())
    asked = everyone if handles is None else handles
    numbers, valid = Search().values(ranking, DOC, there, asked, context())
    sign = 1 if kind == "nearest" else -1
    order = sorted(
        (sign * float(number), ids[handle], int(handle))
        for number, handle, is_there in zip(numbers, asked, valid, strict=True)
        if is_there
    )
    if len(order) > count:
        order = [each for each in order if each[0] <= order[count - 1][0]]
    assert top.handles.tolist() == [each[2] for each in order]
    assert top.numbers.tolist() == [sign * each[0] for each in order]


def test_a_text_is_looked_for_by_its_embedding() -> None:
    embeddings = Embeddings(lambda: MockEmbedder("small"))
    (vector,) = MockEmbedder().embed(["hello"], 2, Purpose.QUERY)
    by_text = Nearest("d", "spot", 2, Metric.COSINE, Const("hello", TEXT), "small")
    by_vector = Nearest("d", "spot", 2, Metric.COSINE, Const(vector, PAIR), None)
    asked = handles(0, 1, 2)
    search = Search(embeddings)
    assert search.values(by_text, DOC, view(), asked, context())[0].tolist() == (
        Search().values(by_vector, DOC, view(), asked, context())[0].tolist()
    )
    other = Nearest("d", "spot", 2, Metric.COSINE, Const("hello", TEXT), "large")
    with pytest.raises(InvalidInput) as caught:
        search.values(other, DOC, view(), asked, context())
    assert caught.value.details == {"wanted": "large", "configured": "small"}
