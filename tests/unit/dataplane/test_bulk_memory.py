"""Arrow's memory comes from elsewhere while bulk work runs, and only then."""

from collections.abc import Generator

import pyarrow as pa
import pytest

from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.memory import bulk_memory


def _pool(_: object = None) -> str:
    return str(pa.default_memory_pool().backend_name)


def test_tasks_take_memory_of_the_system() -> None:
    usual = _pool()
    for items in ([1], [1, 2, 3]):
        assert {pool for _, pool in InProcessRunner(2).run("s", _pool, items)} == {"system"}
        assert _pool() == usual


def test_the_last_one_puts_it_back() -> None:
    usual = _pool()
    first, second = bulk_memory(), bulk_memory()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert _pool() == "system"
    second.__exit__(None, None, None)
    assert _pool() == usual


def test_a_failure_puts_it_back() -> None:
    usual = _pool()

    def fail(_: int) -> None:
        raise RuntimeError("no")

    for items in ([1], [1, 2, 3]):
        with pytest.raises(RuntimeError):
            list(InProcessRunner(2).run("s", fail, items))
        assert _pool() == usual


def test_a_stage_that_is_left_early_puts_it_back() -> None:
    usual = _pool()
    run = InProcessRunner(2).run("s", _pool, [1, 2, 3, 4])
    assert next(run)[1] == "system"
    assert isinstance(run, Generator)
    run.close()
    assert _pool() == usual
