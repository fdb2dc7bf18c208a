"""Making a graph, broken anywhere: afterwards there is none, or one that opens."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, Conflict, NotFound
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Fault, Plan, catalogued
from omnigraph.store.io.storage_calls import StorageCall
from tests import tally
from tests.faults import worlds
from tests.faults.harness import FAULTS, attempt, children, passes
from tests.faults.worlds import COMPANY, KNOWS, PERSON

EMPTY: dict[str, tuple[list[object], list[object]]] = {
    key: ([], []) for key in (PERSON, COMPANY, KNOWS)
}
faults = pytest.mark.parametrize("fault", FAULTS)


def break_one(path: Path, plan: Mapping[StrEnum, Fault], nth: int) -> None:
    try:
        if any(isinstance(fault, Crash) for fault in plan.values()):
            whole = Plan(faults=tuple(plan.items()), nth=nth)
            child = children.Process(target=worlds.perform_begin, args=(path, whole))
            child.start()
            child.join()
            assert child.exitcode == CRASH_STATUS
            tally.count("crashes of a process at a failpoint or a storage call")
        else:
            assert attempt(lambda: worlds.begin(path, durable=True), plan, nth).fired
        judge(path)
    except Exception as error:
        error.add_note(f"pass {nth} of {set(plan)}")
        raise


def judge(path: Path) -> None:
    repo = opened_or_made(path)
    seen = worlds.state(repo).branches["main"]
    assert {key: seen[key] for key in EMPTY} == EMPTY
    worlds.assert_in_order(repo)
    with pytest.raises(Conflict) as caught:
        worlds.begin(path)
    assert caught.value.code is Code.GRAPH_EXISTS
    worlds.add(repo, {PERSON: ("a",), COMPANY: ("a",), KNOWS: ("a",)})
    worlds.assert_in_order(worlds.open_world(path))


def opened_or_made(path: Path) -> Repository:
    try:
        return worlds.open_world(path)
    except NotFound:
        return worlds.begin(path)


def counted(folder: Path) -> dict[StrEnum, int]:
    return passes(lambda: worlds.begin(folder / "counted", durable=True), catalogued())


@faults
def test_every_failpoint(folder: Path, fault: str) -> None:
    for point, times in counted(folder).items():
        if point in set(Fp):
            for nth in range(1, times + 1):
                break_one(folder / f"{point}-{nth}", {point: FAULTS[fault]}, nth)


@pytest.mark.deep
@faults
def test_every_storage_call(folder: Path, fault: str) -> None:
    points = counted(folder)
    calls = sum(times for point, times in points.items() if point in set(StorageCall))
    for nth in range(1, calls + 1):
        break_one(folder / str(nth), dict.fromkeys(StorageCall, FAULTS[fault]), nth)
