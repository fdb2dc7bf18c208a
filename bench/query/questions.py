"""What is asked: eleven questions, as this graph's own language puts them.

Imports nothing that an engine would have to wait for in a new process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEMA: Final = """\
node Person { key: String @key  name: String  age: I32  city: String }
node Company { key: String @key  name: String  sector: String }
node Doc { key: String @key  title: String  topic: String  body: String  embedding: Vector(64) }
edge Knows: Person -> Person { since: Date  @key(src, dst) }
edge WorksAt: Person -> Company { since: Date  @key(src, dst) }
edge Wrote: Person -> Doc { since: Date  @key(src, dst) }
"""


class Compared(StrEnum):
    """When two engines are said to give the same answer."""

    ROWS = "rows"  # the same rows in any order, floats nearly
    DISTANCES = "distances"  # the ranked scores, and how many of the best are found
    SCORES = "scores"  # the ranked scores as far as both go, since ties may fall either way
    OVERLAP = "overlap"  # how many of the best are found; engines fuse differently


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. Rows of a search are (doc, title, author, score), best first."""

    name: str
    title: str
    text: str
    params: tuple[str, ...] = ()
    compared: Compared = Compared.ROWS


QUESTIONS: Final = (
    Question(
        name="Q1",
        title="point lookup",
        params=("key",),
        text="""\
query q1($key: String) {
  match { $p: Person { key: $key } }
  return { $p.name as name, $p.age as age, $p.city as city }
}
""",
    ),
    Question(
        name="Q2",
        title="1 hop, 4 properties each",
        params=("key",),
        text="""\
query q2($key: String) {
  match { $p: Person { key: $key }  $p knows $f }
  return { $f.key as key, $f.name as name, $f.age as age, $f.city as city }
}
""",
    ),
    Question(
        name="Q3",
        title="2 hops, distinct count",
        params=("key",),
        text="""\
query q3($key: String) {
  match { $p: Person { key: $key }  $p knows $a  $a knows $b }
  return { count(distinct $b) as n }
}
""",
    ),
    Question(
        name="Q4",
        title="3 hops, distinct count",
        params=("key",),
        text="""\
query q4($key: String) {
  match { $p: Person { key: $key }  $p knows $a  $a knows $b  $b knows $c }
  return { count(distinct $c) as n }
}
""",
    ),
    Question(
        name="Q5",
        title="filter, hop, group by, whole graph",
        params=("age",),
        text="""\
query q5($age: I32) {
  match { $p: Person  $p.age >= $age  $p knows $f }
  return { $f.city as city, count($f) as n, avg($f.age) as age }
}
""",
    ),
    Question(
        name="Q6",
        title="all 2-hop paths, count",
        text="""\
query q6() {
  match { $a: Person  $a knows $b  $b knows $c }
  return { count($c) as n }
}
""",
    ),
    Question(
        name="Q6t",
        title="all triangles, count",
        text="""\
query q6t() {
  match { $a: Person  $a knows $b  $b knows $c  $a knows $c }
  return { count($c) as n }
}
""",
    ),
    Question(
        name="Q7",
        title="reachable in 1..4 hops, count",
        params=("key",),
        text="""\
query q7($key: String) {
  match { $p: Person { key: $key }  $p knows {1,4} $f }
  return { count($f) as n }
}
""",
    ),
    Question(
        name="Q8",
        title="anti-join, whole graph",
        text="""\
query q8() {
  match { $p: Person  not { $p knows $_ } }
  return { count($p) as n }
}
""",
    ),
    Question(
        name="Q9",
        title="vector top 10, filtered, hop",
        params=("topic", "vector"),
        compared=Compared.DISTANCES,
        text="""\
query q9($topic: String, $vector: Vector(64)) {
  match { $d: Doc { topic: $topic }  $a wrote $d }
  return { $d.key as doc, $d.title as title, $a.name as author,
           nearest($d.embedding, $vector) as score }
  order { nearest($d.embedding, $vector) }
  limit 10
}
""",
    ),
    Question(
        name="Q10",
        title="text top 10, hop",
        params=("words",),
        compared=Compared.SCORES,
        text="""\
query q10($words: String) {
  match { $d: Doc  search($d.body, $words)  $a wrote $d }
  return { $d.key as doc, $d.title as title, $a.name as author, bm25($d.body, $words) as score }
  order { bm25($d.body, $words) }
  limit 10
}
""",
    ),
    Question(
        name="Q11",
        title="hybrid top 10, filtered, hop",
        params=("topic", "vector", "words"),
        compared=Compared.OVERLAP,
        text="""\
query q11($topic: String, $vector: Vector(64), $words: String) {
  match { $d: Doc { topic: $topic }  $a wrote $d }
  return { $d.key as doc, $d.title as title, $a.name as author,
           rrf(nearest($d.embedding, $vector), bm25($d.body, $words)) as score }
  order { rrf(nearest($d.embedding, $vector), bm25($d.body, $words)) }
  limit 10
}
""",
    ),
)
