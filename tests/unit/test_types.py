"""Names are checked once, at birth, and stay text."""

import json
import pickle
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Code, InvalidInput
from omnigraph.types import MAIN, Actor, BranchName, CommitId

segments = st.from_regex(
    r"[A-Za-z0-9_-]([A-Za-z0-9._-]{0,20}[A-Za-z0-9_-])?", fullmatch=True
).filter(lambda text: ".." not in text and not text.endswith(".lock"))
branch_texts = (
    st.lists(segments, min_size=1, max_size=60)
    .map("/".join)
    .filter(lambda text: len(text) <= 120 and not text.startswith("__"))
)


@pytest.mark.parametrize(
    "text", ["main", "agent/42", "a.b-c_d", "feature/x/y", "_private", "a/__b", "0", "x" * 120]
)
def test_branch_names_that_pass(text: str) -> None:
    assert BranchName(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "/",
        "/a",
        "a/",
        "a//b",
        "a b",
        "a\\b",
        "é",
        "a:b",
        "a%2Fb",
        ".",
        "..",
        "a/../b",
        ".hidden",
        "dot.",
        "a..b",
        "a.lock",
        "__schema_apply_lock__",
        "__run__1",
        "a\nb",
        "x" * 121,
    ],
)
def test_branch_names_that_do_not(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        BranchName(text)
    assert caught.value.code is Code.NAME_INVALID
    assert caught.value.details == {"name": text}


def test_branch_names_are_trimmed() -> None:
    assert BranchName("  main\n") == MAIN


@given(branch_texts)
def test_a_valid_name_fits_a_file_name_and_is_stable(text: str) -> None:
    name = BranchName(text)
    assert BranchName(name) == name
    assert len(quote(name, safe="") + ".json") <= 255


@given(st.text())
def test_any_text_is_either_a_name_or_invalid_input(text: str) -> None:
    try:
        name = BranchName(text)
    except InvalidInput:
        return
    assert name == text.strip()


def test_commit_ids_are_canonical_ulids() -> None:
    text = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    assert CommitId(text) == text
    for wrong in (
        text.lower(),
        text[:-1],
        text + "0",
        "8" + text[1:],
        text[:-1] + "U",
        text + "\n",
    ):
        with pytest.raises(InvalidInput):
            CommitId(wrong)


def test_actors_are_printable_and_bounded() -> None:
    assert Actor(" agent:42 ") == "agent:42"
    assert Actor("omnigraph:recovery") == "omnigraph:recovery"
    for wrong in ("", " ", "a\nb", "a\x00", "x" * 257):
        with pytest.raises(InvalidInput):
            Actor(wrong)


@pytest.mark.parametrize(
    "value", [MAIN, CommitId("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Actor("omnigraph:recovery")]
)
def test_values_travel_as_text(value: str) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert (again, type(again)) == (value, type(value))
    assert json.loads(json.dumps(value)) == value
