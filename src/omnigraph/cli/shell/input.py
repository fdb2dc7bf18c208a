"""The input of the shell as text: where a statement ends, and what kind it is. Pure."""

import re
from typing import Final

_NAME: Final = "shell"
# Texts and comments hide braces from the count.
_HIDDEN: Final = re.compile(r'"(?:\\.|[^"\\])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_WORD: Final = re.compile(r"\w+")
_RETURN: Final = re.compile(r"\breturn\s*\{")


def is_command(text: str) -> bool:
    """True for a command of the shell, which begins with a colon."""
    return text.lstrip().startswith(":")


def is_complete(text: str) -> bool:
    """True if a statement ends here, so that it can be run.

    A query ends with the brace that closes it. A statement without a header ends with its line: a
    reading one needs its `return`, and a semicolon ends anything.
    """
    bare = _HIDDEN.sub(" ", text).strip()
    if not bare or is_command(bare) or bare.endswith(";"):
        return True
    if bare.count("{") > bare.count("}") or bare.count("(") > bare.count(")"):
        return False
    first = _WORD.search(bare)
    if first is None or first[0] == "query":
        return bare.endswith("}")
    return first[0] != "match" or _RETURN.search(bare) is not None


def as_query(text: str) -> str:
    """The statement as a query: one without a header gets one."""
    bare = text.strip().removesuffix(";").rstrip()
    first = _WORD.search(_HIDDEN.sub(" ", bare))
    if first is None or first[0] == "query":
        return bare
    return f"query {_NAME}() {{\n{bare}\n}}"
