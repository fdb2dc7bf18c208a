"""Words of a command line, split into options and arguments, and turned into values."""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.cli.nearest import nearest
from omnigraph.cli.parameters import CommandParameter, UsageError

HELP = ("-h", "--help")


class HelpRequested(Exception):
    """The words ask for help."""


@dataclass(slots=True)
class SplitWords:
    """The words of one call.

    Attributes:
        options: The texts of each option that is given, by its name; none for a flag.
        arguments: The words that are neither options nor their values.
    """

    options: dict[str, list[str]]
    arguments: list[str]


def split_options(
    words: Sequence[str], parameters: Sequence[CommandParameter], *, interspersed: bool
) -> SplitWords:
    """Split words into options with their values, and arguments, by the rules of GNU.

    Args:
        words: The words.
        parameters: The options that may be given.
        interspersed: Options may stand behind arguments; else the first argument ends them, and it
            and everything behind it are arguments.

    Raises:
        UsageError: An option is not known, or has no value or one too many.
        HelpRequested: The words ask for help.
    """
    known = {name: each for each in parameters for name in each.opts}
    short, long = "h", ["help"]
    for name, each in known.items():
        if name.startswith("--"):
            long.append(name[2:] + ("" if each.is_flag else "="))
        else:
            short += name[1:] + ("" if each.is_flag else ":")
    split = getopt.gnu_getopt if interspersed else getopt.getopt
    try:
        pairs, arguments = split(list(words), short, long)
    except getopt.GetoptError as error:
        raise _refused(error, known) from None
    options: dict[str, list[str]] = {}
    for name, text in pairs:
        if name in HELP:
            raise HelpRequested
        texts = options.setdefault(known[name].name, [])
        if not known[name].is_flag:
            texts.append(text)
    return SplitWords(options, arguments)


def _refused(error: getopt.GetoptError, known: Mapping[str, CommandParameter]) -> UsageError:
    name = f"--{error.opt}" if len(error.opt) > 1 else f"-{error.opt}"
    option = known.get(name)
    if option is not None:
        return UsageError(f"Option '{name}' {'takes no' if option.is_flag else 'needs a'} value.")
    shown = [each for each, option in known.items() if not option.hidden]
    near = nearest(name, [*shown, *HELP]) if len(error.opt) > 1 else None
    return UsageError(f"No such option: {name}." + (f" Did you mean {near}?" if near else ""))


def values_of(words: SplitWords, parameters: Sequence[CommandParameter]) -> dict[str, Any]:
    """The value of every parameter.

    Raises:
        UsageError: Something is missing, or one too many, or of another kind.
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
        raise UsageError(f"Got unexpected {more}: {' '.join(left)}")
    return values


def _for_argument(each: CommandParameter, left: list[str]) -> list[str] | None:
    if each.is_list:
        texts = list(left)
        left.clear()
        return texts or None
    return [left.pop(0)] if left else None


def _value(each: CommandParameter, texts: list[str] | None) -> Any:
    if texts is None:
        if each.required:
            word = "option" if each.is_option else "argument"
            raise UsageError(f"Missing {word} '{each.shown}'.")
        return each.default
    values = [each.value(text) for text in texts]
    return values if each.is_list else values[-1]
