"""The graph that is loaded. Imports nothing, so that every contender can."""

from __future__ import annotations

from typing import Final

GRAPH: Final = """\
enum Sector { energy, food, health, media, metal, paper, space, tools, trade, water }

node Person {
  key: String @key
  name: String
  age: I32
  score: F64
  active: Bool
  since: Date
  city: String
  bio: String
  @range(age, 0..130)
}

node Company {
  key: String @key
  name: String
  sector: Sector
  founded: I32
}

edge Knows: Person -> Person {
  since: Date
  weight: F64
}

edge WorksAt: Person -> Company @card(0..1) {
  since: Date
  role: String
}
"""

SECTORS: Final = (
    "energy", "food", "health", "media", "metal", "paper", "space", "tools", "trade", "water",
)  # fmt: skip

DIM: Final = 384
DOCS: Final = f"""\
node Doc {{
  key: String @key
  title: String
  embedding: Vector({DIM})
}}
"""

NODES: Final = ("Person", "Company")
EDGES: Final = ("Knows", "WorksAt")
TYPES: Final = (*NODES, *EDGES)
