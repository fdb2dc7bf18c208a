"""The choice between looking up and loading, given what a process has spent on looking up."""

import pytest

from omnigraph.exec import tuning
from omnigraph.exec.access import LookupCost
from omnigraph.lang.ir.expr import EntityRef

PERSON = EntityRef("node", "Person", "1")
KNOWS = EntityRef("edge", "Knows", "2")
ROWS = tuning.active.loaded_rows_max
ROW_NS = tuning.active.load_row_ns
MANY = ROWS * 10


def test_what_is_small_or_there_is_never_looked_up() -> None:
    assert not LookupCost().favours_lookup([PERSON], 0)
    assert not LookupCost().favours_lookup([PERSON], ROWS)
    assert LookupCost().favours_lookup([PERSON], ROWS + 1)


def test_looking_up_ends_when_it_has_cost_what_loading_costs() -> None:
    cost = LookupCost()
    cost.add([PERSON], MANY * ROW_NS - 1)
    assert cost.favours_lookup([PERSON], MANY)
    cost.add([PERSON], 1)
    assert not cost.favours_lookup([PERSON], MANY)


@pytest.mark.parametrize(("asked", "worth"), [([PERSON], False), ([KNOWS], True)])
def test_each_type_is_counted_by_itself(asked: list[EntityRef], worth: bool) -> None:
    cost = LookupCost()
    cost.add([PERSON], MANY * ROW_NS)
    assert cost.favours_lookup(asked, MANY) == worth
