"""The error tree is API: its shape, its codes and its travel by pickle, copy and JSON."""

import ast
import copy
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph
from omnigraph import errors
from omnigraph.errors import (
    CLASS_OF,
    Code,
    Conflict,
    ConstraintViolated,
    Effect,
    GraphError,
    Internal,
    InvalidInput,
    JsonValue,
    NotFound,
    RecoveryRequired,
    Unavailable,
)

PUBLISHED = Path(__file__).with_name("error_codes.txt")
SOURCES = sorted(Path(omnigraph.__file__).parent.rglob("*.py"))

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
raised = st.builds(
    lambda code, text, effect, details: CLASS_OF[code](code, text, effect=effect, **details),
    code=st.sampled_from(Code),
    text=st.text(),
    effect=st.none() | st.sampled_from(Effect),
    details=st.dictionaries(st.text().filter(lambda key: key != "effect"), json_values, max_size=3),
)


def alike(one: GraphError, other: GraphError) -> bool:
    return (type(one), one.code, str(one), one.effect, one.details) == (
        type(other),
        other.code,
        str(other),
        other.effect,
        other.details,
    )


def test_the_tree_is_flat_and_drawn_in_the_module_docstring() -> None:
    drawn = [
        line.split()[1]
        for line in (errors.__doc__ or "").splitlines()
        if "├" in line or "└" in line
    ]
    children = {cls for cls in GraphError.__subclasses__() if cls.__module__ == errors.__name__}
    assert drawn == [
        "InvalidInput",
        "Unauthenticated",
        "Forbidden",
        "NotFound",
        "Gone",
        "Conflict",
        "PreconditionFailed",
        "LimitExceeded",
        "Cancelled",
        "Busy",
        "ConstraintViolated",
        "RecoveryRequired",
        "Unavailable",
        "Corrupt",
        "Internal",
    ]
    assert {cls.__name__ for cls in children} == set(drawn)


def test_every_code_belongs_to_one_class_and_every_class_has_a_code() -> None:
    owners = Counter(code for codes in errors._CODES.values() for code in codes)
    assert owners == Counter(Code)
    assert set(CLASS_OF.values()) == set(GraphError.__subclasses__())


def test_published_codes_stay() -> None:
    """A new code goes to the end of the list; a published one is never edited."""
    published = [tuple(line.split()) for line in PUBLISHED.read_text().splitlines()]
    assert [(code.value, CLASS_OF[code].__name__) for code in Code] == published


def test_code_and_class_must_agree() -> None:
    with pytest.raises(TypeError, match="belongs to NotFound"):
        InvalidInput(Code.FILE_NOT_FOUND, "no such file")
    with pytest.raises(TypeError):
        GraphError(Code.INTERNAL, "the root is not for raising")


def test_every_raise_in_the_package_pairs_class_and_code() -> None:
    """Found by reading the source, so that a rare path needs no test of its own for this."""
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), path.name)):
            match node:
                case ast.Call(
                    func=ast.Name(id=cls) | ast.Attribute(attr=cls),
                    args=[ast.Attribute(value=ast.Name(id="Code"), attr=code), *_],
                ) if cls in errors.__all__:
                    if CLASS_OF[Code[code]].__name__ != cls:
                        wrong.append(f"{path.name}:{node.lineno}: {cls} with {code}")
                case _:
                    pass
    assert wrong == []


def test_the_text_is_the_string_and_the_rest_is_plain() -> None:
    error = NotFound(Code.FILE_NOT_FOUND, "no schema there", path="people.pg")
    assert str(error) == "no schema there"
    assert (error.code, error.effect) == (Code.FILE_NOT_FOUND, Effect.NONE)
    assert error.details == {"path": "people.pg"}


def test_effect_has_a_default_per_class_and_can_be_overridden() -> None:
    assert RecoveryRequired(Code.RECOVERY_REQUIRED, "").effect is Effect.UNKNOWN
    assert Unavailable(Code.UNAVAILABLE, "").effect is Effect.NONE
    lost = Unavailable(Code.UNAVAILABLE, "", effect=Effect.UNKNOWN, verb="put")
    assert (lost.effect, lost.details) == (Effect.UNKNOWN, {"verb": "put"})
    assert Unavailable.effect is Effect.NONE


@given(raised)
def test_errors_survive_pickle_copy_and_json(error: GraphError) -> None:
    assert alike(pickle.loads(pickle.dumps(error)), error)
    assert alike(copy.copy(error), error)
    assert alike(copy.deepcopy(error), error)
    assert alike(GraphError.from_json(json.loads(json.dumps(error.to_json()))), error)


def test_a_code_from_the_future_keeps_its_class() -> None:
    sent = Conflict(Code.CONFLICT, "later", table="node:Person").to_json()
    received = GraphError.from_json({**sent, "code": "conflict_of_tomorrow"})
    assert isinstance(received, Conflict)
    assert received.code is Code.CONFLICT
    assert received.details == {"table": "node:Person", "unknown_code": "conflict_of_tomorrow"}


def test_a_class_from_the_future_is_internal() -> None:
    sent = Internal(Code.INTERNAL, "").to_json()
    received = GraphError.from_json({**sent, "code": "new", "kind": "NewClass"})
    assert isinstance(received, Internal)


@pytest.mark.parametrize("payload", [{}, {"code": 1}, {"message": "m", "details": 3}, [], None])
def test_an_unreadable_payload_is_an_error_of_unknown_effect(payload: Any) -> None:
    received = GraphError.from_json(payload)
    assert isinstance(received, Internal)
    assert received.effect is Effect.UNKNOWN


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (InvalidInput, "diagnostics"),
        (Conflict, "conflicts"),
        (ConstraintViolated, "violations"),
    ],
)
def test_lists_of_records_are_properties(error: type[GraphError], name: str) -> None:
    code = error.default("").code
    record: dict[str, JsonValue] = {"message": "found", "line": 3}
    assert getattr(error(code, "", **{name: [record]}), name) == [record]
    assert getattr(error(code, ""), name) == []
    assert getattr(error(code, "", **{name: "nonsense"}), name) == []


def test_all_is_complete() -> None:
    public = {
        name
        for name, value in vars(errors).items()
        if not name.startswith("_")
        and getattr(value, "__module__", errors.__name__) == errors.__name__
    }
    assert set(errors.__all__) >= {cls.__name__ for cls in GraphError.__subclasses__()}
    assert set(errors.__all__) <= public | {"JsonValue", "CLASS_OF"}
