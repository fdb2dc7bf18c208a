"""Words of a command line, told apart into options and arguments, and turned into values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from omnigraph.cli.parameters import Taken, WrongCall

HELP = ("-h", "--help")


class HelpAsked(Exception):
    """The words ask for help."""


class GivenWords:
    """The words of one call.

    Attributes:
        options: The texts of each option that is given, by its name; none for a flag.
        arguments: The words that are neither options nor their values.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.options: dict[str, list[str]] = {}
        self.arguments: list[str] = []


def told_apart(
    words: Sequence[str], parameters: Sequence[Taken], *, all_of_them: bool
) -> GivenWords:
    """Tell options and arguments apart.

    Args:
        words: The words.
        parameters: What may be given.
        all_of_them: Options may stand behind arguments; else the first argument ends them, and it
            and everything behind it are arguments.

    Raises:
        WrongCall: An option is not known, or has no value or one too many.
        HelpAsked: The words ask for help.
    """
    known = {name: each for each in parameters for name in each.opts}
    found, left = GivenWords(), list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            found.arguments += left
            break
        if not word.startswith("-") or word == "-":
            found.arguments.append(word)
            if not all_of_them:
                found.arguments += left
                break
        elif word in HELP:
            raise HelpAsked
        elif word.startswith("--"):
            _long(word, known, left, found)
        else:
            _short(word, known, left, found)
    return found


def _long(word: str, known: dict[str, Taken], left: list[str], found: GivenWords) -> None:
    name, has_value, value = word.partition("=")
    option = _option(name, known)
    texts = found.options.setdefault(option.name, [])
    if option.is_flag:
        if has_value:
            raise WrongCall(f"Option '{name}' takes no value.")
    else:
        texts.append(value if has_value else _next(name, left))


def _short(word: str, known: dict[str, Taken], left: list[str], found: GivenWords) -> None:
    """Take `-x`, `-x VALUE`, `-xVALUE`, or several flags in one word."""
    for at, letter in enumerate(word[1:], 1):
        option = _option(f"-{letter}", known)
        texts = found.options.setdefault(option.name, [])
        if not option.is_flag:
            rest = word[at + 1 :]
            texts.append(rest or _next(f"-{letter}", left))
            return


def _option(name: str, known: dict[str, Taken]) -> Taken:
    option = known.get(name)
    if option is not None:
        return option
    shown = [each for each, option in known.items() if not option.hidden]
    near = difflib.get_close_matches(name, [*shown, *HELP], n=1) if name.startswith("--") else []
    raise WrongCall(f"No such option: {name}." + (f" Did you mean {near[0]}?" if near else ""))


def _next(name: str, left: list[str]) -> str:
    if not left:
        raise WrongCall(f"Option '{name}' needs a value.")
    return left.pop(0)


def values_of(words: GivenWords, parameters: Sequence[Taken]) -> dict[str, Any]:
    """The value of every parameter.

    Raises:
        WrongCall: Something is missing, or one too many, or of another kind.
    """
    values: dict[str, Any] = {}
    left = list(words.arguments)
    for each in parameters:
        if each.is_option:
            texts = words.options.get(each.name)
            if texts is not None and each.is_flag:
                values[each.name] = True
                continue
        else:
            texts = _for_argument(each, left)
        values[each.name] = _value(each, texts)
    if left:
        more = "argument" if len(left) == 1 else "arguments"
        raise WrongCall(f"Got unexpected {more}: {' '.join(left)}")
    return values


def _for_argument(each: Taken, left: list[str]) -> list[str] | None:
    if each.is_list:
        texts = list(left)
        left.clear()
        return texts or None
    return [left.pop(0)] if left else None


def _value(each: Taken, texts: list[str] | None) -> Any:
    if texts is None:
        if each.required:
            word = "option" if each.is_option else "argument"
            raise WrongCall(f"Missing {word} '{each.shown}'.")
        return each.default
    values = [each.value(text) for text in texts]
    return values if each.is_list else values[-1]
