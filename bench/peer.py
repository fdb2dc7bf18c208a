"""The same query through Lark's LALR parser, if it is installed: a peer to compare with.

The grammar covers what the typical query uses and builds Lark's own tree; it checks no types.
"""

import importlib
from collections.abc import Callable

GRAMMAR = r"""
start: query*
query: "query" NAME "(" [param ("," param)*] ")" "{" match return_ [order] [limit] "}"
param: VAR ":" TYPE "?"?
match: "match" "{" clause+ "}"
clause: VAR ":" TYPE [assignments]           -> binding
      | VAR NAME VAR                         -> traversal
      | operand COMPARE operand              -> filter
      | "not" "{" clause+ "}"                -> negation
assignments: "{" [NAME ":" operand ("," NAME ":" operand)*] "}"
operand: VAR | VAR "." NAME -> property | STRING | INT
return_: "return" "distinct"? "{" projection ("," projection)* "}"
projection: operand ["as" NAME]
order: "order" "{" key ("," key)* "}"
key: NAME [DIRECTION]
limit: "limit" INT
DIRECTION: "asc" | "desc"
COMPARE: ">=" | "<=" | "!=" | "=" | ">" | "<"
VAR: /\$[a-z_][A-Za-z0-9_]*/
NAME: /[a-z_][A-Za-z0-9_]*/
TYPE: /[A-Z][A-Za-z0-9_]*/
STRING: /"[^"]*"/
INT: /[0-9]+/
COMMENT: /\/\/[^\n]*/
%ignore /[ \t\r\n]+/
%ignore COMMENT
"""


def lark_parser(text: str) -> Callable[[], object] | None:
    """A call that parses `text`, or None without Lark."""
    try:
        lark = importlib.import_module("lark")
    except ImportError:
        return None
    parser = lark.Lark(GRAMMAR, parser="lalr")
    return lambda: parser.parse(text)
