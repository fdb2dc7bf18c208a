r"""The regular expressions that a `@check` may use.

The writers evaluate patterns with a linear-time engine, the compiler only has Python's `re`. So
a pattern must compile there and stay inside what both understand alike: no look-around, no
back-references, no set operations in a class, no possessive or atomic forms, no large repetitions.
Classes such as `\w` mean ASCII characters.
"""

from __future__ import annotations

import re
from math import comb

PATTERN_CHARS_MAX = 1000
_NESTED_GROUPS_MAX = 50
_GROUP = re.compile(r"\(\?(?:P<[A-Za-z_]\w*>|[ims]*(?:-[ims]+)?[:)])")
_COUNTED = re.compile(r"\{([0-9]*),?([0-9]*)\}")
# What the linear-time engine unrolls at most, repetitions within repetitions multiplied.
_COPIES_MAX = 1_000
_STEPS_MAX = 1_000_000
_POSSESSIVE = re.compile(r"(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def pattern_fault(pattern: str) -> str | None:
    """Returns what is wrong with a pattern, or None when it can be used."""
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
    if _copies(pattern) > _COPIES_MAX:
        return f"something is repeated more than {_COPIES_MAX} times"
    return None


def rejects(pattern: str, text: str) -> bool:
    """True if a usable pattern certainly has no match in a text.

    Python's engine can take exponential time where the writers' cannot, so it is only asked when
    a bound on its work is small; otherwise the answer is no, and the writers have the last word.
    """
    if _work(pattern, len(text)) > _STEPS_MAX:
        return False
    return re.search(pattern, text, re.ASCII) is None


def _work(pattern: str, length: int) -> int:
    """A rough upper bound on the number of ways that the engine could have to try."""
    quantifiers, repeated_choice, copies = _quantifiers(pattern)
    if not repeated_choice:
        # Each quantifier takes some of the text, one behind the other.
        return (length + 1) * comb(length + quantifiers, quantifiers)
    size = len(pattern) * copies
    work: int = size ** min(length + 1, _STEPS_MAX.bit_length())
    return work


def _quantifiers(pattern: str) -> tuple[int, bool, int]:
    """The number of quantifiers, whether one repeats a choice, and how often bounds multiply."""
    total, copies, repeated_choice = 0, 1, False
    choices = [False]  # per open group: it holds a quantifier or an alternative
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
        if depth > _NESTED_GROUPS_MAX:
            return f"groups are nested deeper than {_NESTED_GROUPS_MAX} levels"
        if char == "\\":
            fault = _foreign_escape(pattern[at + 1 : at + 2])
            if fault is not None:
                return fault
            at += 2
        elif char == "[":
            at, fault = _skip_class(pattern, at)
            if fault is not None:
                return fault
        elif pattern.startswith("(?", at) and not _GROUP.match(pattern, at):
            return f"groups that start with `{pattern[at : at + 3]}` are not supported"
        elif _POSSESSIVE.match(pattern, at):
            return "a quantifier cannot be followed by `+`"
        elif pattern.startswith("{,", at) and _COUNTED.match(pattern, at):
            return "a repetition needs its lower bound, write `{0,`"
        else:
            at += 1
    return None


def _foreign_escape(follow: str) -> str | None:
    if follow.isdigit() and follow != "0":
        return "back-references are not supported"
    if follow == "Z":
        return "`\\Z` is not supported, write `$`"
    if follow and follow in "uUN":
        return f"`\\{follow}` is not supported, write the character itself"
    return None


def _copies(pattern: str) -> int:
    """The number of copies of the most repeated part once the pattern is written out."""
    most = [1]  # per open group: the most copies of something in it
    last = 1  # the same for what a quantifier here would repeat
    at = 0
    while at < len(pattern):
        char = pattern[at]
        counted = _COUNTED.match(pattern, at)
        if char == "[":
            at, _ = _skip_class(pattern, at)
            last = 1
            continue
        if char == "(":
            most.append(1)
        elif char == ")" and len(most) > 1:
            last = most.pop()
        elif counted is not None and any(counted.groups()):
            last *= max(1, *(int(number or 0) for number in counted.groups()))
            at = counted.end() - 1
        elif char not in "*+?":
            last = 1
        most[-1] = max(most[-1], last)
        at += 2 if char == "\\" else 1
    return max(most)


def _skip_class(pattern: str, at: int) -> tuple[int, str | None]:
    """The place behind the character class that starts here, and what is wrong inside."""
    at += 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern) and pattern[at] != "]":
        if pattern[at] == "\\":
            follow = pattern[at + 1 : at + 2]
            if follow == "b":
                return at, "`\\b` inside a class is not supported"
            fault = _foreign_escape(follow)
            if fault is not None:
                return at, fault
            at += 2
            continue
        if pattern[at] == "[" or pattern[at : at + 2] in ("&&", "--", "~~", "||"):
            return at, "a class inside a class is not supported, escape it with a backslash"
        at += 1
    return at + 1, None
