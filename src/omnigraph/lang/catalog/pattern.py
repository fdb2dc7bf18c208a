"""Which regular expressions a `@check` may use.

The writers evaluate patterns with a linear-time engine, the compiler only has Python's `re`. So
a pattern must compile there and stay inside what both understand alike: no look-around, no
back-references, no set operations in a class, no possessive or atomic forms.
"""

from __future__ import annotations

import re
from math import comb

PATTERN_CHARS_MAX = 1000
_NESTING_MAX = 50
_GROUP = re.compile(r"\(\?(?:P<[A-Za-z_]\w*>|[imsx]*(?:-[imsx]+)?[:)])")
_COUNTED = re.compile(r"\{([0-9]*),?([0-9]*)\}")
_WORK_MAX = 1_000_000
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


def rejects(pattern: str, text: str) -> bool:
    """Is it certain that a usable pattern has no match in a text?

    Python's engine can take exponential time where the writers' cannot, so it is only asked when
    a bound on its work is small; otherwise the answer is no, and the writers have the last word.
    """
    if _work(pattern, len(text)) > _WORK_MAX:
        return False
    return re.search(pattern, text) is None


def _work(pattern: str, length: int) -> int:
    """How many ways the engine could have to try, at most and very roughly."""
    quantifiers, repeated_choice, copies = _quantifiers(pattern)
    if not repeated_choice:
        # Each quantifier takes some of the text, one behind the other.
        return (length + 1) * comb(length + quantifiers, quantifiers)
    size = len(pattern) * copies
    work: int = size ** min(length + 1, _WORK_MAX.bit_length())
    return work


def _quantifiers(pattern: str) -> tuple[int, bool, int]:
    """The number of quantifiers, whether one repeats a choice, and how often bounds multiply."""
    total, copies, repeated_choice = 0, 1, False
    choices = [False]  # per open group: does it hold a quantifier or an alternative?
    closed = False  # the choice inside the group that ended just now
    at = 0
    while at < len(pattern):
        char = pattern[at]
        counted = _COUNTED.match(pattern, at)
        if char == "[":
            at, _ = _skip_class(pattern, at)
            closed = False
            continue
        if char == "(":
            choices.append(False)
            group = _GROUP.match(pattern, at)
            at = group.end() if group is not None else at + 1
            if group is not None and group[0].endswith(")"):
                choices.pop()  # flags for the whole pattern, not a group
            closed = False
            continue
        if char == ")" and len(choices) > 1:
            closed = choices.pop()
            choices[-1] |= closed
        elif char in "*+?" or counted is not None:
            total += 1
            repeated_choice |= closed and char != "?"
            choices[-1] = True
            if counted is not None:
                copies *= max(1, *(int(number or 0) for number in counted.groups()))
                at = counted.end() - 1
        else:
            choices[-1] |= char == "|"
            closed = False
        at += 2 if char == "\\" else 1
    return total, repeated_choice, copies


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
