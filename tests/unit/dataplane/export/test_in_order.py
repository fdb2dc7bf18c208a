"""Work on threads with results in order: bounded ahead, and over when something fails."""

import threading
from collections.abc import Iterator

import pytest

from omnigraph.dataplane.export.single_file import in_order

SECONDS_MAX = 60  # only a deadlock takes so long


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert list(in_order(lambda item: item * 2, range(100), threads)) == list(range(0, 200, 2))
    assert list(in_order(str, [], threads)) == []


def test_later_items_are_worked_on_while_the_first_is_not_done() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(SECONDS_MAX)
        if item == 1:
            second_is_done.set()
        return item

    assert list(in_order(work, range(10), 2)) == list(range(10))


def test_items_are_taken_a_bounded_number_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            taken.append(number)
            yield number

    results = in_order(lambda item: item, items(), 3)
    for number in range(10):
        assert next(results) == number
        assert len(taken) <= number + 1 + 6
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 16


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_ends_it(threads: int) -> None:
    done: list[int] = []

    def work(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        done.append(item)
        return item

    results = in_order(work, range(1_000), threads)
    with pytest.raises(ValueError, match="five"):
        list(results)
    assert len(done) < 50


def test_an_error_of_the_source_ends_it() -> None:
    def items() -> Iterator[int]:
        yield from range(7)
        raise ValueError("source")

    with pytest.raises(ValueError, match="source"):
        list(in_order(str, items(), 2))
