"""`omnigraph fmt`: the canonical spelling of schemas and queries."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status, show
from omnigraph.cli.files import STDIN, decode, read_bytes, read_stdin, replace, sources
from omnigraph.cli.plain import counted
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.schema import format_schema_text
from omnigraph.lang.source import Diagnostics, Source


class Mode(Enum):
    """What happens to a file that is not in its canonical spelling."""

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
        """Is there anything to write?"""
        return self.before != self.after

    def diff(self) -> str:
        """What would change, as a unified diff."""
        # Split by line feeds alone, so that a change of line ends is a change of lines.
        old, new = (text.decode().split("\n") for text in (self.before, self.after))
        ended = [f"{line}\n" for line in old[:-1]], [f"{line}\n" for line in new[:-1]]
        ended[0].extend(line for line in old[-1:] if line)
        lines = difflib.unified_diff(*ended, self.name, self.name)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def perform(paths: Sequence[Path], *, check: bool, diff: bool) -> Status:
    """Format every file among and below the paths; with `check` or `diff` nothing is written."""
    chosen = settings()
    mode = _mode(check=check, diff=diff)
    changed = failed = 0
    files = sources(paths)
    for path in files:
        try:
            item = _formatted(str(path), read_bytes(path, chosen), path.suffix)
            if item.changed and mode is Mode.WRITE:
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
    return Status.FAILED if failed or (check and changed) else Status.OK


def perform_stdin(language: str, *, check: bool, diff: bool) -> Status:
    """Format standard input to standard output."""
    item = _formatted(STDIN, read_stdin(settings()), f".{language}")
    mode = _mode(check=check, diff=diff)
    if mode is Mode.WRITE:
        render.out().exactly(item.after.decode())
    elif item.changed:
        _announce(item, mode)
    return Status.FAILED if check and item.changed else Status.OK


def _mode(*, check: bool, diff: bool) -> Mode:
    if diff:
        return Mode.DIFF
    return Mode.CHECK if check else Mode.WRITE


def _announce(item: Formatted, mode: Mode) -> None:
    screen = render.out()
    if mode is Mode.DIFF:
        screen.diff(item.diff())
    else:
        screen.line(f"{mode.value} ", (item.name, "bold"))


def _summarise(total: int, changed: int, failed: int, mode: Mode) -> None:
    if not total:
        render.err().line("no .pg or .gq files here")
        return
    word = "formatted" if mode is Mode.WRITE else "to format"
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
