"""Where Arrow takes its memory, in processes that do bulk work and nothing else."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from omnigraph.dataplane.run.memory import take_small_pages

CHOICE = "ARROW_DEFAULT_MEMORY_POOL"


@pytest.fixture(autouse=True)
def usual() -> Iterator[pa.MemoryPool]:
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    try:
        yield pool
    finally:
        pa.set_memory_pool(pool)


def test_it_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    take_small_pages()
    take_small_pages()
    assert pa.default_memory_pool().backend_name == "system"


def test_the_choice_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "mimalloc")
    take_small_pages()
    assert pa.default_memory_pool().backend_name == "mimalloc"
