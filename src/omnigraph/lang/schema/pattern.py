"""Which regular expressions a `@check` may use.

The writers evaluate patterns with a linear-time engine, the compiler only has Python's `re`. So
a pattern must compile there and stay inside what both understand alike: no look-around, no
back-references, no set operations in a class, no possessive or atomic forms.
"""

from __future__ import annotations

import re

PATTERN_CHARS_MAX = 1000
_NESTING_MAX = 50
_GROUP = re.compile(r"\(\?(?:P<[A-Za-z_]\w*>|[imsx]*(?:-[imsx]+)?[:)])")
_POSSESSIVE = re.compile(r"(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a pattern, or None when it can be used."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"it has {len(pattern)} characters, the limit is {PATTERN_CHARS_MAX}"
    fault = _foreign_syntax(pattern)
    if fault is not None:
        return fault
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    except OverflowError:
        return "a repetition is too large"
    return None


def _foreign_syntax(pattern: str) -> str | None:
    """The first construct that the engines do not agree about."""
    at = depth = 0
    while at < len(pattern):
        char = pattern[at]
        depth += (char == "(") - (char == ")")
        if depth > _NESTING_MAX:
            return f"groups are nested deeper than {_NESTING_MAX} levels"
        if char == "\\":
            follow = pattern[at + 1 : at + 2]
            if follow.isdigit() and follow != "0":
                return "back-references are not supported"
            if follow == "Z":
                return "`\\Z` is not supported, write `$`"
            at += 2
        elif char == "[":
            at, fault = _skip_class(pattern, at)
            if fault is not None:
                return fault
        elif pattern.startswith("(?", at) and not _GROUP.match(pattern, at):
            return f"groups that start with `{pattern[at : at + 3]}` are not supported"
        elif _POSSESSIVE.match(pattern, at):
            return "a quantifier cannot be followed by `+`"
        else:
            at += 1
    return None


def _skip_class(pattern: str, at: int) -> tuple[int, str | None]:
    """The place behind the character class that starts here, and what is wrong inside."""
    at += 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        if pattern[at] == "\\":
            at += 2
            continue
        if pattern[at] == "[" or pattern[at : at + 2] in ("&&", "--", "~~", "||"):
            return at, "a class inside a class is not supported, escape it with a backslash"
        at += 1
    return at + 1, None
