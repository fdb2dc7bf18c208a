"""Help texts: usage, options and examples, fitted to the terminal."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from typing import Final

from omnigraph.cli.environment import columns
from omnigraph.cli.parameters import CommandParameter

_WIDTH_CHARS_MAX: Final = 100
_WIDTH_CHARS_MIN: Final = 40
# Terms longer than this stand on a line of their own.
_TERM_CHARS_MAX: Final = 30
_GAP_CHARS: Final = 2

Rows = Sequence[tuple[str, str]]


def usage(path: str, parameters: Sequence[CommandParameter], *, has_commands: bool = False) -> str:
    """The first line of help, and of a complaint."""
    words = ["[OPTIONS]"] if any(not each.hidden for each in parameters if each.is_option) else []
    words += [_argument(each) for each in parameters if not each.is_option]
    words += ["COMMAND [ARGS]..."] if has_commands else []
    return "\n".join(
        _filled(" ".join(words), first=f"Usage: {path} ", rest=" " * len(f"Usage: {path} "))
    )


def help_text(
    path: str,
    about: str,
    parameters: Sequence[CommandParameter],
    examples: Sequence[str] = (),
    commands: dict[str, list[tuple[str, str]]] | None = None,
) -> str:
    """The whole help of a command, or of a group of commands by their headings."""
    lines = [usage(path, parameters, has_commands=commands is not None), ""]
    for paragraph in inspect.cleandoc(about).split("\n\n"):
        lines += [*_filled(" ".join(paragraph.split()), first="  ", rest="  "), ""]
    arguments = [(_argument(each), each.help) for each in parameters if not each.is_option]
    if any(text for _, text in arguments):
        lines += _section("Arguments", arguments)
    options = [_option_row(each) for each in parameters if each.is_option and not each.hidden]
    lines += _section("Options", [*options, ("-h, --help", "Show this message and exit.")])
    for heading, rows in (commands or {}).items():
        lines += _section(heading, rows)
    if examples:
        lines += ["  Examples:", *(f"    {line}" for line in examples), ""]
    return "\n".join(lines)


def _argument(each: CommandParameter) -> str:
    shown = each.metavar + ("..." if each.is_list else "")
    return shown if each.required else f"[{shown}]"


def _option_row(each: CommandParameter) -> tuple[str, str]:
    names = sorted(each.opts, key=lambda name: name.startswith("--"))
    notes = [each.range] if each.range else []
    if each.required:
        notes.append("required")
    elif not each.is_flag and each.default is not None:
        notes.append(f"default: {each.default}")
    note = f"  [{'; '.join(notes)}]" if notes else ""
    return f"{', '.join(names)} {each.metavar}".rstrip(), each.help + note


def _section(heading: str, rows: Rows) -> list[str]:
    lines = [f"{heading}:"]
    widest = max(len(term) for term, _ in rows)
    column = min(widest, _TERM_CHARS_MAX) + 2 + _GAP_CHARS
    for term, text in rows:
        head = f"  {term}"
        if not text:
            lines.append(head)
        elif len(head) + _GAP_CHARS > column:
            lines += [head, *_filled(text, first=" " * column, rest=" " * column)]
        else:
            lines += _filled(text, first=head.ljust(column), rest=" " * column)
    return [*lines, ""]


def _filled(text: str, *, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        width_of_help(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def width_of_help() -> int:
    """The width of help: that of the terminal, up to what reads well."""
    return max(min(columns(), _WIDTH_CHARS_MAX) - 2, _WIDTH_CHARS_MIN)
