import json
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ConstraintViolated, GraphError
from omnigraph.rules.violation import Rule, Violation, Violations


def _violation(
    id_: str | None = "x",
    rule: Rule = Rule.REQUIRED,
    *,
    message: str = "m",
    file: str | None = None,
    line: int | None = None,
) -> Violation:
    return Violation(
        rule=rule,
        kind="node",
        type_name="Person",
        id=id_,
        properties=("age",),
        value=None,
        message=message,
        file=file,
        line=line,
    )


def test_nothing_found_raises_nothing() -> None:
    Violations().raise_if_any()


def test_the_error_lists_every_violation_and_survives_the_wire() -> None:
    out = Violations()
    out.add(_violation("b", message="second"))
    out.add(_violation("a", message="first", file="people.jsonl", line=7))
    with pytest.raises(ConstraintViolated) as caught:
        out.raise_if_any()
    assert "2 violations" in str(caught.value)
    assert caught.value.details["total"] == 2
    again = GraphError.from_json(json.loads(json.dumps(caught.value.to_json())))
    assert isinstance(again, ConstraintViolated)
    assert [item["message"] for item in again.violations] == ["second", "first"]
    assert again.violations[1] == {
        "rule": "required",
        "kind": "node",
        "type": "Person",
        "id": "a",
        "properties": ["age"],
        "value": None,
        "message": "first",
        "file": "people.jsonl",
        "line": 7,
    }


def test_a_single_violation_speaks_for_itself() -> None:
    out = Violations()
    out.add(_violation(message="Person.age of 'x': a value is required"))
    with pytest.raises(ConstraintViolated, match=r"^Person\.age of 'x': a value is required$"):
        out.raise_if_any()


def test_the_input_comes_first_in_the_order_then_the_entity_then_the_rule() -> None:
    wanted = [
        _violation(None, Rule.UNIQUE),
        _violation("a", Rule.TYPE),
        _violation("a", Rule.FINITE),
        _violation("b", Rule.REQUIRED),
        _violation("z", Rule.REQUIRED, file="a", line=2),
        _violation("b", Rule.REQUIRED, file="a", line=10),
        _violation("a", Rule.REQUIRED, file="b", line=1),
    ]
    out = Violations()
    for item in reversed(wanted):
        out.add(item)
    assert list(out.items) == wanted


def test_the_total_counts_what_a_kernel_did_not_describe() -> None:
    out = Violations(kept_max=2)
    out.add_all([_violation("a"), _violation("b")], 5)
    assert (out.total, len(out.items)) == (5, 2)


@given(st.lists(st.text("abc", max_size=3), max_size=30), st.integers(1, 5), st.data())
def test_what_is_kept_does_not_depend_on_the_way_it_came(
    ids: Sequence[str], kept: int, data: st.DataObject
) -> None:
    expected = sorted(ids)[:kept]
    shuffled = data.draw(st.permutations(ids))
    cut = data.draw(st.integers(0, len(ids)))
    one, two = Violations(kept), Violations(kept)
    for place, id_ in enumerate(shuffled):
        (one if place < cut else two).add(_violation(id_))
    one.merge(pickle.loads(pickle.dumps(two)))
    assert [item.id for item in one.items] == expected
    assert one.total == len(ids)
