"""Work on a whole graph, broken at one of its storage calls: relocating, copying, cleaning up.

None of it may leave more than two kinds of graph: as it was, or as it is to be; and doing the same
again must always end well. What differs between them is how a graph is made, what is done to it and
how it is judged, and that is an *undertaking*. Graphs are made once, as templates, and copied file
by file to the place where they are broken, on local disk or on S3.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import omnigraph as og
from omnigraph.core.repository import components
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Fault, Plan, arm
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from tests import tally
from tests.faults.harness import at_any_call, attempt, children, passes

IDS = UlidIds()


def nothing(root: Root) -> None:
    """A graph that can be worked on wherever it was copied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undertaking:
    """One kind of work. Its functions are those of modules, so that a child can be given them."""

    name: str
    make: Callable[[Root], None]
    run: Callable[[Root], object]
    judge_broken: Callable[[Root], None]  # whatever it is now, it is nothing worse
    judge_done: Callable[[Root], None]
    prepare: Callable[[Root], object] = nothing  # a graph that was just copied


@dataclass(slots=True)
class Workshop:
    """A place below which graphs are made, copied and broken."""

    root: Root
    _made: set[str] = field(default_factory=set)

    def copy(self, work: Undertaking) -> Root:
        """The graph of an undertaking, at a place of its own, ready for it."""
        template = below(self.root, f"template-{work.name}")
        if work.name not in self._made:
            work.make(template)
            self._made.add(work.name)
        place = below(self.root, IDS.new())
        if place.is_local:
            shutil.copytree(template.local_path, place.local_path)
        else:
            source, target = objects_of(template), objects_of(place)
            for info in source.list(""):
                target.put(info.path, source.get(info.path))
        work.prepare(place)
        return place

    def discard(self, place: Root) -> None:
        """Remove a graph; on S3 it ends with the server."""
        if place.is_local:
            shutil.rmtree(place.local_path)


def below(root: Root, path: str) -> Root:
    """A place below another one."""
    return Root(root.join(path), root.storage_options)


def objects_of(root: Root) -> ObjectStore:
    """The files of a place."""
    return components(root).objects


def open_at(root: Root, mode: str = "rw", **options: Any) -> og.Graph:
    """Open the graph of a place."""
    return og.open(root.uri, mode, storage_options=dict(root.storage_options), **options)


def init_at(root: Root, schema: str) -> og.Graph:
    """Make a graph at a place."""
    return og.init(root.uri, schema, storage_options=dict(root.storage_options))


def relocate_at(root: Root, *, dry_run: bool = False) -> og.RelocateResult:
    """Relocate the graph of a place."""
    return og.relocate(root.uri, dry_run=dry_run, storage_options=dict(root.storage_options))


def calls_of(shop: Workshop, work: Undertaking) -> range:
    """The numbers of its storage calls."""
    place = shop.copy(work)
    counted = passes(lambda: work.run(place), StorageCall)
    work.judge_done(place)
    shop.discard(place)
    return range(1, sum(counted.values()) + 1)


def break_at(shop: Workshop, work: Undertaking, fault: Fault, nths: Iterable[int]) -> None:
    """Break it at these storage calls, one after the other, and do it again each time."""
    points = at_any_call(fault)
    for nth in nths:
        place = shop.copy(work)
        try:
            _break_one(work, place, points, nth)
            work.judge_broken(place)
            work.run(place)
            work.judge_done(place)
        except Exception as error:
            error.add_note(f"{type(fault).__name__} at storage call {nth} of {work.name}")
            raise
        shop.discard(place)


def _break_one(work: Undertaking, place: Root, points: dict[StrEnum, Fault], nth: int) -> None:
    if not any(isinstance(fault, Crash) for fault in points.values()):
        assert attempt(lambda: work.run(place), points, nth).fired
        return
    plan = Plan(faults=tuple(points.items()), nth=nth)
    child = children.Process(target=_perform, args=(work.run, place, plan))
    child.start()
    child.join()
    assert child.exitcode == CRASH_STATUS
    tally.count("crashes of a process at a failpoint or a storage call")


def _perform(run: Callable[[Root], object], place: Root, plan: Plan) -> None:
    arm(plan)
    run(place)


def sample(calls: range, count: int) -> list[int]:
    """A few of the calls: the first, the last, and some between them."""
    step = max(1, len(calls) // (count - 1))
    return sorted({*calls[::step], calls[-1]})
