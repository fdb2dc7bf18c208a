"""A small graph from Python: change it, ask it, branch it, search it.

The schema and the queries are the files in examples/people.
"""

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import omnigraph as og

FOLDER = Path(__file__).parent / "people"
QUERIES = (FOLDER / "queries.gq").read_text(encoding="utf-8")
console = Console(highlight=False)

PEOPLE = [
    ("ada@example.org", "Ada", ["en", "fr"], "Analytical Engines"),
    ("bo@example.org", "Bo", ["zh", "en"], "Looms"),
    ("cy@example.org", "Cy", ["el"], "Looms"),
    ("di@example.org", "Di", ["en"], "Looms"),
]
ADD = """
query add($email: String, $name: String, $languages: [String], $company: String) {
  insert Person { email: $email, name: $name, languages: $languages }
  insert Company { name: $company, founded: 1830 }
  insert WorksAt { from: $email, to: $company, since: date("2024-01-08") }
}
"""
MEET = """
query meet($a: String, $b: String, $strength: F64) {
  insert Knows { from: $a, to: $b, strength: $strength }
}
"""
WRITE = """
query write($slug: String, $title: String, $body: String, $vector: Vector(4), $by: String) {
  insert Article {
    slug: $slug, title: $title, body: $body, embedding: $vector,
    published: datetime("2024-06-01T09:00:00Z"),
  }
  insert Wrote { from: $by, to: $slug }
}
"""
ARTICLES = [
    ("engine", "Notes on the engine", "An engine weaves algebraic patterns", [1.0, 0.1, 0.0, 0.0]),
    ("loom", "Notes on the loom", "A loom weaves flowers and leaves", [0.7, 0.7, 0.1, 0.0]),
    ("tea", "On tea", "Boil water, wait, pour", [0.0, 0.0, 1.0, 0.2]),
]


def main() -> None:
    """Show one thing after the other."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        place = Path(folder) / "people.omni"
        with og.init(place, schema=FOLDER / "people.pg", actor="demo") as graph:
            fill(graph)
            ask(graph)
            search(graph)
            branch(graph)
            refuse(graph)


def fill(graph: og.Graph) -> None:
    for email, name, languages, company in PEOPLE:
        params = {"email": email, "name": name, "languages": languages, "company": company}
        graph.mutate(ADD, params)
    for a, b, strength in [("ada", "bo", 0.9), ("bo", "cy", 0.4), ("ada", "cy", 0.7)]:
        emails = {"a": f"{a}@example.org", "b": f"{b}@example.org"}
        graph.mutate(MEET, {**emails, "strength": strength})
    for slug, title, body, vector in ARTICLES:
        words = {"slug": slug, "title": title, "body": body}
        graph.mutate(WRITE, {**words, "vector": vector, "by": "ada@example.org"})
    say(f"Filled by {len(graph.commits.list())} commits: {dict(graph.snapshot().counts)}\n")


def ask(graph: og.Graph) -> None:
    say("Colleagues of Ada's friends whom she does not know yet:")
    show(graph.query(QUERIES, {"email": "ada@example.org"}, name="introductions"))
    say("Everybody within three introductions of Cy:")
    show(graph.query(QUERIES, {"email": "cy@example.org"}, name="circle"))


def search(graph: og.Graph) -> None:
    say("Articles about weaving (the word is found in any form), by meaning and by words:")
    params = {"vector": [1.0, 0.0, 0.0, 0.0], "words": "notes"}
    show(graph.query(QUERIES, {"words": "weaving"}, name="find_articles"))
    show(graph.query(QUERIES, params, name="related_articles"))


def branch(graph: og.Graph) -> None:
    before = graph.snapshot().commit
    graph.branches.create("agent/42")
    change = {"email": "ada@example.org", "level": "lead", "summary": "Wrote the first program"}
    done = graph.mutate(QUERIES, change, name="promote", branch="agent/42", actor="agent-42")
    level = 'query level() { match { $p: Person { name: "Ada" } } return { $p.level as level } }'
    there = graph.query(level, branch="agent/42")[0]["level"]
    here = graph.query(level)[0]["level"]
    say(f"On branch agent/42 Ada is {there}, on main still {here}.")
    say(f"The commit there: {done.commit.id if done.commit else None} by agent-42")
    graph.mutate('query leave() { delete Person where name = "Cy" }')
    count = "query all() { match { $p: Person  $p knows $q } return { count($p) as links } }"
    now, then = graph.query(count)[0]["links"], graph.query(count, at=before)[0]["links"]
    say(f"Cy left, and two acquaintances with him: {now} now, {then} before.\n")


def refuse(graph: og.Graph) -> None:
    say("Nothing half-right gets in, and all that is wrong is said at once:")
    bad = {"email": "not an address", "name": "Ed", "languages": [], "company": "Looms"}
    try:
        graph.mutate(ADD.replace("1830", "1500"), bad)
    except og.errors.ConstraintViolated as error:
        for item in error.violations:
            say(f"  {item['message']}")
    console.print()
    say("And where the time went:")
    show_text(str(graph.profile(QUERIES, {"since": 1800}, name="employers")))


def show(rows: og.Rows) -> None:
    table = Table(*rows.columns, box=None, header_style="bold", pad_edge=True)
    for row in rows:
        table.add_row(*(str(row[name]) for name in rows.columns))
    console.print(table)
    console.print()


def say(text: str) -> None:
    console.print(Text(text), soft_wrap=not console.is_terminal)


def show_text(text: str) -> None:
    console.print(Text(text), soft_wrap=True)


if __name__ == "__main__":
    main()
