"""`omnigraph fmt`: formats schemas and queries."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, Literal

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status, show
from omnigraph.cli.files import STDIN, decode, read_bytes, read_stdin, replace, sources
from omnigraph.cli.lazy import command
from omnigraph.cli.parameters import Argument, Option, UsageError
from omnigraph.cli.plain import counted
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.schema import format_schema_text
from omnigraph.lang.source import Diagnostics, Source


class FormatMode(Enum):
    """The treatment of a file that is not in its canonical spelling."""

    WRITE = "formatted"
    CHECK = "would change"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A file before and after."""

    name: str
    before: bytes
    after: bytes

    @property
    def changed(self) -> bool:
        """True if formatting changes the file."""
        return self.before != self.after

    def diff(self) -> str:
        """The change as a unified diff."""
        # Split by line feeds alone, so that a change of line ends is a change of lines.
        old, new = (text.decode().split("\n") for text in (self.before, self.after))
        ended = [f"{line}\n" for line in old[:-1]], [f"{line}\n" for line in new[:-1]]
        ended[0].extend(line for line in old[-1:] if line)
        lines = difflib.unified_diff(*ended, self.name, self.name)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


@command(
    "omnigraph fmt",
    "omnigraph fmt --check --diff schemas/ people.gq",
    "omnigraph fmt --lang gq - < people.gq",
)
def fmt(
    paths: Annotated[
        list[Path] | None,
        Argument(
            metavar="PATHS",
            help="Files, folders, or - for standard input; without any, the current folder.",
        ),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Write nothing; end with 1 if a file would change.")
    ] = False,
    diff: Annotated[bool, Option("--diff", help="Write nothing; print what would change.")] = False,
    language: Annotated[
        Literal["pg", "gq"] | None, Option("--lang", help="The language of standard input.")
    ] = None,
) -> Status:
    """Format .pg and .gq files in place.

    Folders are searched for both; hidden folders are not. A file that does not parse is reported
    and left as it is. Comments stay.
    """
    chosen = paths or [Path(".")]
    from_stdin = Path("-") in chosen
    if from_stdin and len(chosen) > 1:
        raise UsageError("- stands for standard input and cannot be mixed with paths")
    if from_stdin and language is None:
        raise UsageError("say --lang pg or --lang gq when reading standard input")
    if language is not None and not from_stdin:
        raise UsageError("--lang is for standard input; files tell by their suffix")
    mode = _mode(check=check, diff=diff)
    if language is None:
        changed, failed = _format_files(chosen, mode)
    else:
        changed, failed = _format_stdin(language, mode), 0
    return Status.FAILED if failed or (check and changed) else Status.OK


def _format_files(paths: Sequence[Path], mode: FormatMode) -> tuple[int, int]:
    """Formats the files among and below the paths; returns how many change and how many fail."""
    chosen = settings()
    changed = failed = 0
    files = sources(paths)
    for path in files:
        try:
            item = _formatted(str(path), read_bytes(path, chosen), path.suffix)
            if item.changed and mode is FormatMode.WRITE:
                replace(path, item.after)
        except GraphError as error:
            # The others can still be formatted; the status tells that not all of them were.
            show(error)
            render.err().line()
            failed += 1
            continue
        if item.changed:
            _announce(item, mode)
            changed += 1
    _summarise(len(files), changed, failed, mode)
    return changed, failed


def _format_stdin(language: str, mode: FormatMode) -> int:
    """Formats standard input to standard output; returns 1 if that changes it, else 0."""
    item = _formatted(STDIN, read_stdin(settings()), f".{language}")
    if mode is FormatMode.WRITE:
        render.out().exactly(item.after.decode())
    elif item.changed:
        _announce(item, mode)
    return int(item.changed)


def _mode(*, check: bool, diff: bool) -> FormatMode:
    if diff:
        return FormatMode.DIFF
    return FormatMode.CHECK if check else FormatMode.WRITE


def _announce(item: Formatted, mode: FormatMode) -> None:
    screen = render.out()
    if mode is FormatMode.DIFF:
        screen.diff(item.diff())
    else:
        screen.line(f"{mode.value} ", (item.name, "bold"))


def _summarise(total: int, changed: int, failed: int, mode: FormatMode) -> None:
    if not total:
        render.err().line("no .pg or .gq files here")
        return
    word = "formatted" if mode is FormatMode.WRITE else "to format"
    parts = [f"{counted(changed, 'file')} {word}"] if changed else []
    if same := total - changed - failed:
        parts.append(f"{same} already formatted")
    if failed:
        parts.append(f"{failed} left alone because of errors")
    render.err().line(", ".join(parts))


# -- formatting one text -------------------------------------------------------------------


def _format_queries(text: str, name: str) -> str:
    found = Diagnostics(Source(name, text))
    file = parse_queries(found.source, found)
    found.reject_if_errors(Code.SYNTAX)
    return format_queries(file)


_FORMATTERS: Final[Mapping[str, Callable[[str, str], str]]] = {
    ".pg": format_schema_text,
    ".gq": _format_queries,
}


def _formatted(name: str, content: bytes, suffix: str) -> Formatted:
    formatter = _FORMATTERS.get(suffix)
    if formatter is None:
        message = f"{name} is neither a schema (.pg) nor a query file (.gq)"
        raise InvalidInput(Code.INPUT_INVALID, message, path=name)
    after = formatter(decode(content, name), name).encode()
    return Formatted(name=name, before=content, after=after)
