"""The texts that are compiled: the example project, and a schema of a thousand types."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples" / "people"
TYPES = 1_000

PEOPLE = (EXAMPLES / "people.pg").read_text(encoding="utf-8")
QUERIES = (EXAMPLES / "queries.gq").read_text(encoding="utf-8")

# What people write: a few hops, a filter, a negation, an order.
TYPICAL = """\
query introductions($email: String) {
  match {
    $me: Person { email: $email }
    $me knows $friend
    $friend worksAt $company
    $other worksAt $company
    $other.email != $email
    not { $me knows $other }
  }
  return distinct { $other.name as name, $company.name as company }
  order { company, name }
  limit 10
}
"""


def large_schema() -> str:
    """A thousand node types of eight properties, and a thousand edge types between them."""
    nodes = (
        f"node Type{number} {{\n"
        "  key: String @key\n"
        "  title: String @index\n"
        "  body: String?\n"
        "  count: I64 @default(0)\n"
        "  score: F64?\n"
        "  active: Bool\n"
        "  created: DateTime\n"
        "  tags: [String]\n"
        "}\n"
        for number in range(TYPES)
    )
    edges = (
        f"edge Link{number}: Type{number} -> Type{(number * 7 + 1) % TYPES} {{ since: Date? }}\n"
        for number in range(TYPES)
    )
    return "\n".join((*nodes, *edges))
