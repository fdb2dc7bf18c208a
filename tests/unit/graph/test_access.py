"""Looking up or loading: which one a process should do, given what it has spent."""

import pytest

from omnigraph.graph.access import NANOSECONDS_A_ROW, ROWS_LOADED_AT_ONCE, Rent
from omnigraph.lang.ir.expr import EntityRef

PERSON = EntityRef("node", "Person", "1")
KNOWS = EntityRef("edge", "Knows", "2")
MANY = ROWS_LOADED_AT_ONCE * 10


def test_what_is_small_or_there_is_never_looked_up() -> None:
    assert not Rent().is_worth_it([PERSON], 0)
    assert not Rent().is_worth_it([PERSON], ROWS_LOADED_AT_ONCE)
    assert Rent().is_worth_it([PERSON], ROWS_LOADED_AT_ONCE + 1)


def test_looking_up_ends_when_it_has_cost_what_loading_costs() -> None:
    rent = Rent()
    rent.pay([PERSON], MANY * NANOSECONDS_A_ROW - 1)
    assert rent.is_worth_it([PERSON], MANY)
    rent.pay([PERSON], 1)
    assert not rent.is_worth_it([PERSON], MANY)


@pytest.mark.parametrize(("asked", "worth"), [([PERSON], False), ([KNOWS], True)])
def test_each_type_is_paid_for_by_itself(asked: list[EntityRef], worth: bool) -> None:
    rent = Rent()
    rent.pay([PERSON], MANY * NANOSECONDS_A_ROW)
    assert rent.is_worth_it(asked, MANY) == worth
