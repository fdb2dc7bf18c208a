"""A small graph with every kind of file, and a visit that uses all of it.

A damage test copies the graph, breaks one file and visits the copy in a process of its own, whose
memory is bounded: every step of the visit answers rightly, or fails with a typed error that says
where the damage is.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.errors import GraphError
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Crash, Plan
from omnigraph.types import AccessChoice

__all__ = ["Outcome", "leave_intent", "make", "visit", "visit_as", "visit_in_child"]

MEMORY_MAX: Final = 3 << 30

# Where an error says what it is about.
_PLACES: Final = ("path", "place", "uri", "branch", "table_key", "operation_id")
_SCHEMA: Final = """
node Person { name: String @key  age: I32? @index  bio: String? @index  spot: Vector(3)? @index }
node Company { name: String @key  size: I32? }
edge Knows: Person -> Person { since: I32? }
"""
_CHANGES: Final = """
query add($name: String, $age: I32, $bio: String, $spot: Vector(3)) {
  insert Person { name: $name, age: $age, bio: $bio, spot: $spot }
}
query found($name: String, $size: I32) { insert Company { name: $name, size: $size } }
query know($a: String, $b: String, $since: I32) { insert Knows { from: $a, to: $b, since: $since } }
query close($name: String) { delete Company where name = $name }
query gone($name: String) { delete Person where name = $name }
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
"""
_READS: Final = """
query everyone() {
  match { $p: Person }
  return { $p.name as name, $p.age as age, $p.bio as bio, $p.spot as spot }
  order { $p.name }
}
query one() { match { $p: Person  $p.name = "p1" } return { $p.name as name, $p.age as age } }
query aged() { match { $p: Person  $p.age > 2 } return { $p.name as name } order { $p.name } }
query friends() {
  match { $a: Person  $b: Person  $a knows $b }
  return { $a.name as a, $b.name as b }
  order { $a.name, $b.name }
}
query firms() {
  match { $c: Company } return { $c.name as name, $c.size as size } order { $c.name }
}
query words() {
  match { $p: Person  search($p.bio, "red") } return { $p.name as name } order { $p.name }
}
query near($v: Vector(3)) {
  match { $p: Person } return { $p.name as name } order { nearest($p.spot, $v) } limit 2
}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one step of a visit ended: with an answer, or with an error."""

    step: str
    answer: Any = None
    error: str | None = None  # its class
    code: str | None = None  # None for an error that is not of our tree
    message: str = ""
    path: str | None = None  # where it says the damage is


def _add(graph: og.Graph, name: str, age: int, *, branch: str = "main") -> None:
    params = {"name": name, "age": age, "bio": f"red {name}", "spot": [float(age), 1.0, 2.0]}
    graph.mutate(_CHANGES, params, name="add", branch=branch)


def make(path: Path, *, indexed: bool = True) -> None:
    """Make the graph: data, deletions, indexes if asked for, a branch, a short history."""
    with og.init(path, schema=_SCHEMA) as graph:
        for number in range(4):
            _add(graph, f"p{number}", number)
        for number in range(3):
            ends = {"a": f"p{number}", "b": f"p{number + 1}", "since": number}
            graph.mutate(_CHANGES, ends, name="know")
        firms = [{"name": f"c{number}", "size": number} for number in range(40)]
        graph.load({"Company": firms})
        graph.mutate(_CHANGES, {"name": "c7"}, name="close")
        graph.mutate(_CHANGES, {"name": "p2", "age": 33}, name="grow")
        graph.mutate(_CHANGES, {"name": "p3"}, name="gone")
        if indexed:
            graph.ensure_indices()
        graph.branches.create("dev")
        _add(graph, "q", 9, branch="dev")


def leave_intent(path: Path) -> None:
    """Begin a write and die in the middle of it. What a child process runs."""
    graph = og.open(path)
    failpoints.arm(Plan(faults=((Fp.LANDED, Crash()),), nth=1))
    _add(graph, "late", 5)


def visit_in_child(path: Path, home: Path, answer: Connection) -> None:
    """Visit with bounded memory and send the outcomes. What a child process runs."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    os.environ["OMNIGRAPH_HOME"] = str(home)
    # A native panic writes to the terminal before it is an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    answer.send(visit(path))
    answer.close()
    # Without the interpreter's farewell: threads of Lance may still be busy with damaged files.
    sys.stdout.flush()
    os._exit(0)


def visit_as(path: Path, other: Path, home: Path, user: int, answer: Connection) -> None:
    """Visit as another user, who has seen another graph. What a child process runs."""
    os.environ["OMNIGRAPH_HOME"] = str(home)
    visit(other)  # that user may not be able to import what is imported on the way
    os.setgid(user)
    os.setuid(user)
    answer.send(visit(path))
    answer.close()
    os._exit(0)


def visit(path: Path) -> list[Outcome]:
    """Open the graph, ask, write, ask again, and open it once more."""
    outcomes: list[Outcome] = []
    graph = _step(outcomes, "open", lambda: og.open(path), keep=True)
    if graph is not None:
        _reads(outcomes, graph, "before")
        _step(outcomes, "write", lambda: _add(graph, "new", 50))
        _step(outcomes, "write dev", lambda: _add(graph, "new", 51, branch="dev"))
        _step(outcomes, "grow", lambda: _change(graph, "grow", {"name": "p0", "age": 77}))
        _step(outcomes, "link", lambda: _change(graph, "know", {"a": "p0", "b": "p2", "since": 1}))
        _step(outcomes, "indices", lambda: bool(graph.ensure_indices().pending))
        _step(outcomes, "close", graph.close)
    again = _step(outcomes, "reopen", lambda: og.open(path, "r"), keep=True)
    if again is not None:
        _reads(outcomes, again, "after")
        _step(outcomes, "close again", again.close)
    return outcomes


def _change(graph: og.Graph, name: str, params: dict[str, Any]) -> None:
    graph.mutate(_CHANGES, params, name=name)


def _reads(outcomes: list[Outcome], graph: og.Graph, when: str) -> None:
    # Everything is saved and mapped, however small.
    graph._parts.views.saved_rows_min = 1
    for branch in ("main", "dev"):
        for access in ("dense", "direct"):
            for name in ("everyone", "one", "aged", "friends", "firms", "words", "near"):
                if access == "direct" and name in ("words", "near"):
                    continue
                step = f"{when}: {name} on {branch}, {access}"
                _step(outcomes, step, partial(_ask, graph, name, branch, access))
        step = f"{when}: history of {branch}"
        _step(outcomes, step, partial(_history, graph, branch))
    _step(outcomes, f"{when}: branches", graph.branches.list)
    _step(outcomes, f"{when}: counts", lambda: dict(graph.snapshot().counts))


def _history(graph: og.Graph, branch: str) -> int:
    return len(list(graph.commits.walk(branch)))


def _ask(graph: og.Graph, name: str, branch: str, access: AccessChoice) -> Any:
    params = {"v": [0.0, 1.0, 2.0]} if name == "near" else {}
    return graph.query(_READS, params, name=name, branch=branch, access=access).to_pylist()


def _step(
    outcomes: list[Outcome], step: str, action: Callable[[], Any], *, keep: bool = False
) -> Any:
    """Note how an action ended; return what it returned, if somebody needs it."""
    try:
        found = action()
    except BaseException as error:  # noqa: BLE001 - panics are no exceptions
        outcomes.append(_failed(step, error))
        return None
    outcomes.append(Outcome(step, answer=None if keep else found))
    return found


def _failed(step: str, error: BaseException) -> Outcome:
    known = error if isinstance(error, GraphError) else None
    details = {} if known is None else known.details
    path = next((str(details[key]) for key in _PLACES if key in details), None)
    return Outcome(
        step,
        error=type(error).__name__,
        code=None if known is None else known.code.value,
        message=str(error),
        path=path,
    )
