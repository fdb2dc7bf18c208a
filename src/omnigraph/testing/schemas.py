"""Schemas by hand that between them have every shape a query or a change can meet."""

from __future__ import annotations

from typing import Final

SOCIAL: Final = """
node Person {
  name: String @key
  age: I32?
  city: String?
  rating: F32?
  joined: DateTime?
  tags: [String]?
}

// Shares ids with Person: they must never be mixed up.
node Company {
  name: String @key
  size: I64 @default(1)
  founded: Date?
}

node Doc {
  slug: String @key
  title: String
  body: String?
  embedding: Vector(3)?
  sketch: Vector(2)? @metric(l2)
  weight: Vector(2)? @metric(dot)
}

// No key: ids are generated.
node Event {
  title: String?
  at: DateTime?
}

// Parallel edges and self-loops are legal.
edge Knows: Person -> Person {
  since: Date?
  strength: F64?
}
edge WorksAt: Person -> Company { role: String? }
edge Wrote: Person -> Doc
edge Cites: Doc -> Doc
edge Attended: Person -> Event
edge Rated: Person -> Doc {
  stars: I32
  comment: String?
  @key(src, dst)
}
"""
"""People, companies, texts with vectors: cross-type edges, loops, parallel and keyed edges."""

NUMBERS: Final = """
enum Colour { blue, green, red }

node Cell {
  label: String?
  flag: Bool?
  small: I32?
  large: I64?
  count: U32?
  huge: U64?
  single: F32?
  double: F64?
  day: Date?
  moment: DateTime?
  colour: Colour?
  flags: [Bool]?
  integers: [I64]?
  naturals: [U64]?
  floats: [F32]?
  doubles: [F64]?
  days: [Date]?
  moments: [DateTime]?
  words: [String]?
}

edge Next: Cell -> Cell {
  weight: F32?
  colour: Colour?
  huge: U64?
}
"""
"""A type without a key that has a property of every type, everything nullable."""

STRICT: Final = """
enum Status { active, left }

node Person {
  name: String @key
  email: String? @unique
  age: I32?
  status: Status @default("active")
  first: String?
  last: String?
  @unique(first, last)
  @range(age, 0..150)
  @check(name, "^[^']")
}

// A key of several columns, of several types.
node Room {
  house: String
  number: U32
  built: Date
  seats: I64?
  @key(house, number, built)
  @range(seats, 1..)
}

node Meeting {
  topic: String
  minutes: I32 @default(30)
}

edge Likes: Person -> Person {
  since: Date?
}
edge Owns: Person -> Room @card(0..2) {
  share: F64? @unique
  @key(src, dst)
}
edge Manages: Person -> Person @card(1..2)
edge Books: Room -> Meeting {
  day: Date
  note: String?
  @key(src, dst, day)
}
// Node types and edge types have name spaces of their own.
edge Person: Meeting -> Person { role: Status? }
"""
"""Every rule that a change can break."""
