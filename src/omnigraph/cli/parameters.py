"""The options and arguments of commands: how they are declared, and how words become values.

A parameter is declared by the annotation of a function's parameter, such as
`Annotated[int, Option("--limit", "-n", min=1, help="...")]`. The types are text, numbers, paths,
flags, words of a `Literal`, and lists of them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

_NUMBERS: Final[dict[Any, str]] = {int: "a whole number", float: "a number"}


class UsageError(Exception):
    """A command line that does not fit its command. The message says what is wrong.

    Attributes:
        path: The command, as it was called; '' until it is known.
        usage: The line that shows how it is called.
    """

    path = ""
    usage = ""

    def refused_by(self, path: str, usage: str) -> UsageError:
        """The same, with the command that refuses it; the innermost one counts."""
        if not self.path:
            self.path, self.usage = path, usage
        return self


class Exit(Exception):
    """The end of a command, with an exit status."""

    def __init__(self, status: int) -> None:
        """End with this status."""
        super().__init__(status)
        self.status = status


class Option:
    """The declaration of an option: its names, and what help says about it."""

    def __init__(
        self,
        *names: str,
        metavar: str | None = None,
        help: str = "",
        hidden: bool = False,
        min: int | None = None,
        max: int | None = None,
    ) -> None:
        """Declare it."""
        self.names, self.metavar, self.help, self.hidden = names, metavar, help, hidden
        self.least, self.most = min, max


class Argument:
    """The declaration of an argument, which has a place instead of a name."""

    def __init__(self, *, metavar: str | None = None, help: str = "") -> None:
        """Declare it."""
        self.metavar, self.help = metavar, help


class CommandParameter:
    """A parameter of a command, as the command line knows it.

    Attributes:
        name: The name of the function's parameter.
        opts: The names of an option; none for an argument.
        kind: The type of one value.
        choices: The words of which one is taken; none if others are, too.
        is_flag: It is an option without a value.
        is_list: It may be repeated.
        required: It has to be given.
        default: Its value where it is not given.
    """

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        """Read what an annotation declares."""
        kind, *declared = get_args(annotation) if get_origin(annotation) is Annotated else (None,)
        found = declared[0]
        self.name = name
        named = f"--{name.rstrip('_').replace('_', '-')}"
        self.opts: tuple[str, ...] = (found.names or (named,)) if isinstance(found, Option) else ()
        self.hidden: bool = isinstance(found, Option) and found.hidden
        self.least: int | None = found.least if isinstance(found, Option) else None
        self.most: int | None = found.most if isinstance(found, Option) else None
        self.help: str = found.help
        kind = _without_none(kind)
        self.is_list = get_origin(kind) is list
        self.kind: Any = get_args(kind)[0] if self.is_list else kind
        self.choices = get_args(self.kind) if get_origin(self.kind) is Literal else ()
        self.is_flag = self.kind is bool
        self.required = default is inspect.Parameter.empty
        self.default = None if self.required else default
        self._metavar: str | None = found.metavar

    @property
    def is_option(self) -> bool:
        """True for an option, False for an argument."""
        return bool(self.opts)

    @property
    def metavar(self) -> str:
        """The word for its value in help; '' for a flag."""
        if self.is_flag:
            return ""
        if self._metavar is not None:
            return self._metavar
        if self.choices:
            return "|".join(self.choices)
        return "NUMBER" if self.kind in _NUMBERS else "TEXT" if self.is_option else self.shown

    @property
    def shown(self) -> str:
        """Its name in messages."""
        if not self.is_option:
            return self._metavar or self.name.upper()
        return next((each for each in self.opts if each.startswith("--")), self.opts[0])

    def value(self, text: str) -> Any:
        """The value of one word.

        Raises:
            UsageError: The word is no such value.
        """
        if self.choices:
            if text not in self.choices:
                known = ", ".join(repr(each) for each in self.choices)
                raise UsageError(f"Invalid value for '{self.shown}': {text!r} is none of {known}.")
            return text
        made: Callable[[str], Any] = self.kind
        if made not in _NUMBERS:
            return Path(text) if made is Path else text
        try:
            number = made(text)
        except ValueError:
            text = f"Invalid value for '{self.shown}': {text!r} is not {_NUMBERS[made]}."
            raise UsageError(text) from None
        if (self.least is not None and number < self.least) or (
            self.most is not None and number > self.most
        ):
            raise UsageError(f"Invalid value for '{self.shown}': {text} is not {self.range}.")
        return number

    @property
    def range(self) -> str:
        """The numbers that it takes, in words; '' if all of them."""
        if self.least is None:
            return "" if self.most is None else f"at most {self.most}"
        if self.most is None:
            return f"at least {self.least}"
        return f"between {self.least} and {self.most}"


def _without_none(kind: Any) -> Any:
    """A type without the None that stands for a missing value."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(each for each in get_args(kind) if each is not type(None))
    return kind
