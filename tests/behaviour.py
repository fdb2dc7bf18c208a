"""Asking and changing a graph in few words, for tests of what users see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import omnigraph as og

Make: TypeAlias = Callable[[str], og.Graph]

PEOPLE = """
node Person {
  name: String @key
  age: I32?
  city: String?
  tags: [String]?
}
node Company {
  name: String @key
}
edge Knows: Person -> Person {
  since: Date?
  note: String?
}
edge WorksAt: Person -> Company {
  role: String?
}
"""


def people(folder: Path) -> og.Graph:
    """Ada knows Bob (twice) and Cid, Bob knows Cid, Cid knows himself and Ada, Dan nobody."""
    graph = og.init(folder / "people.omni", PEOPLE)
    graph.mutate("""query fill() {
      insert Person { name: "Ada", age: 36, city: "London", tags: ["math", "code"] }
      insert Person { name: "Bob", age: 25, city: "Rome", tags: [] }
      insert Person { name: "Cid", age: 25, city: "Rome" }
      insert Person { name: "Dan", city: "Acme" }
      insert Company { name: "Acme" }
      insert Company { name: "Ada" }
      insert Company { name: "Zeta" }
      insert Knows { from: "Ada", to: "Bob", since: date("2020-01-01"), note: "first" }
      insert Knows { from: "Ada", to: "Bob", since: date("2024-01-01") }
      insert Knows { from: "Ada", to: "Cid", since: date("2022-06-30") }
      insert Knows { from: "Bob", to: "Cid" }
      insert Knows { from: "Cid", to: "Cid" }
      insert Knows { from: "Cid", to: "Ada", note: "back" }
      insert WorksAt { from: "Ada", to: "Acme", role: "lead" }
      insert WorksAt { from: "Bob", to: "Acme" }
      insert WorksAt { from: "Cid", to: "Ada" }
    }""")
    return graph


def ask(graph: og.Graph, body: str, /, *, types: str = "", **params: Any) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples; `types` declares its parameters."""
    found = graph.query(f"query q({types}) {{ {body} }}", params)
    return [tuple(row.values()) for row in found]


def match(graph: og.Graph, pattern: str, returned: str, tail: str = "") -> list[Any]:
    """The rows of a pattern; values without their tuple where one column is returned."""
    found = ask(graph, f"match {{ {pattern} }} return {{ {returned} }} {tail}")
    return [row[0] if len(row) == 1 else row for row in found]


def change(
    graph: og.Graph, statements: str, /, *, types: str = "", **params: Any
) -> tuple[int, int]:
    """Run statements; how many nodes and edges they touched."""
    done = graph.mutate(f"query q({types}) {{ {statements} }}", params)
    assert (done.commit is None) == (done.affected_nodes + done.affected_edges == 0)
    return done.affected_nodes, done.affected_edges


def rules(error: og.errors.ConstraintViolated) -> set[tuple[Any, Any]]:
    """Which rules were broken, and of which types."""
    return {(item["rule"], item["type"]) for item in error.violations}


def flat(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The only value of each row."""
    return [value for (value,) in rows]
