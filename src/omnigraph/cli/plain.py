"""Output of commands as plain text: lines, reports, tables, JSON.

Everything goes through a `Screen`, and in a pipe nothing more happens. Lines are never wrapped or
cut. The styles that parts carry are for `terminal.Terminal`, which dresses up the same text.
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final, TextIO, TypeAlias

from omnigraph.errors import Code, InvalidInput, JsonValue

Part: TypeAlias = "str | tuple[str, str]"
"""A piece of a line: plain text, or text with its style."""

STYLE_OF: Final[Mapping[str, str]] = {
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold blue",
    "hint": "cyan",
}

# What a text may contain that a terminal would obey, or that turns the direction of reading. Each
# becomes one visible character, so that carets below still point at their places.
_CONTROLS: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}

NULL: Final = "-"  # what a table shows where there is no value
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_HEAD: Final = re.compile(r"(?P<place>.+?:\d+:\d+: )(?P<kind>error|warning|info)(?P<rest>\[.*)")
_GUTTER: Final = re.compile(r"(?P<gutter> *\d+ \| )(?P<code>.*)")
_CARET: Final = re.compile(r"(?P<gutter> +\| )(?P<caret>\s*\^+)")
_HINT: Final = re.compile(r"(?P<gutter> += )(?P<word>hint): (?P<text>.*)")


class Screen:
    """An output stream.

    Attributes:
        fields: The fields that JSON documents are cut down to; None for all.
        width: How many characters fit on a line; None for a stream without lines to fill.
    """

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        """Write to `stream`."""
        self._stream = stream
        self.width = width
        self.fields: Sequence[str] | None = None

    def line(self, *parts: Part) -> None:
        """Write one line."""
        self._stream.write("".join(plain(part) for part in parts) + "\n")

    def message(self, *parts: Part) -> None:
        """Write a text for people: where lines have a width, it is broken between words."""
        text = "".join(plain(part) for part in parts)
        if self.width is not None and len(text) > self.width:
            text = textwrap.fill(
                text, self.width, break_long_words=False, break_on_hyphens=False, tabsize=4
            )
        self._stream.write(text + "\n")

    def report(self, text: str) -> None:
        """Write diagnostics that the compiler has rendered, with their parts told apart."""
        style = STYLE_OF["error"]
        for line in _fitted(text.rstrip("\n").split("\n"), self.width):
            if head := _HEAD.fullmatch(line):
                style = STYLE_OF[head["kind"]]
            parts = _painted(line, style)
            if line.startswith(" "):
                self.line(*parts)
            else:
                self.message(*parts)

    def diff(self, text: str) -> None:
        """Write a unified diff, exactly: it may be on its way to another program."""
        self.exactly(text)

    def exactly(self, text: str) -> None:
        """Write a text unchanged."""
        self._stream.write(text)

    def json(self, value: JsonValue) -> None:
        """Write one JSON document."""
        # Escapes are for streams that know few characters: elsewhere they only hide the text.
        few = not (self._stream.encoding or "utf-8").lower().startswith("utf")
        shown = value if self.fields is None else chosen_fields(value, self.fields)
        self._stream.write(json.dumps(shown, indent=2, ensure_ascii=few) + "\n")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        """Write a table in aligned columns."""
        widths = column_widths([headings, *rows])
        for row in (headings, *rows):
            cells = (plain(part).ljust(width) for part, width in zip(row, widths, strict=True))
            self.line("  ".join(cells).rstrip())


def chosen_fields(value: JsonValue, fields: Sequence[str]) -> JsonValue:
    """A document with these fields alone: of each record of a list, of each row, or of itself.

    Raises:
        InvalidInput: No record has such a field.
    """
    if isinstance(value, Mapping) and isinstance(rows := value.get("rows"), list):
        return {**value, "columns": list(fields), "rows": chosen_fields(rows, fields)}
    if isinstance(value, list):
        records = [each for each in value if isinstance(each, Mapping)]
        _require_fields(records, fields)
        return [{name: each.get(name) for name in fields} for each in records]
    if isinstance(value, Mapping) and value.get("status") != "error":
        _require_fields([value], fields)
        return {name: value[name] for name in fields}
    return value


def _require_fields(records: Sequence[Mapping[str, JsonValue]], fields: Sequence[str]) -> None:
    known = {name: None for record in records for name in record}
    missing = [name for name in fields if records and name not in known]
    if missing:
        text = f"there is no field {missing[0]!r} in the result; there are: {', '.join(known)}"
        raise InvalidInput(Code.INPUT_INVALID, text, field=missing[0])


def column_widths(rows: Sequence[Sequence[Part]]) -> list[int]:
    """The width of each column of a table."""
    return [max(len(plain(part)) for part in column) for column in zip(*rows, strict=True)]


def visible(text: str) -> str:
    """The text with every character replaced that would steer a terminal."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


def counted(number: int, word: str, plural: str | None = None) -> str:
    """`1 query`, `2 queries`."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def amount(count: float) -> str:
    """A number of bytes as people write it."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == _UNITS[0] else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"


def plain(part: Part) -> str:
    """The text of a part, fit to print."""
    return visible(part if isinstance(part, str) else part[0])


def _fitted(lines: list[str], width: int | None) -> list[str]:
    """Rendered diagnostics with quoted source cut to the width, around its caret."""
    fitted = list(lines)
    for number, line in enumerate(lines):
        quoted = _GUTTER.fullmatch(line)
        if width is None or quoted is None or len(line) <= width:
            continue
        code, room = quoted["code"], width - len(quoted["gutter"])
        below = lines[number + 1] if number + 1 < len(lines) else ""
        caret = _CARET.fullmatch(below)
        start = 0 if caret is None else len(caret["caret"]) - len(caret["caret"].lstrip())
        skipped = max(0, min(start - room // 3, len(code) - room))
        shown = code[skipped : skipped + room]
        shown = f"…{shown[1:]}" if skipped else shown
        shown = f"{shown[:-1]}…" if skipped + room < len(code) else shown
        fitted[number] = quoted["gutter"] + shown
        if caret is not None:
            fitted[number + 1] = caret["gutter"] + caret["caret"][skipped : skipped + room]
    return fitted


def _painted(line: str, style: str) -> list[Part]:
    """The parts of one line of a rendered diagnostic, whose severity has this style."""
    if found := _GUTTER.fullmatch(line):
        return [(found["gutter"], "dim"), found["code"]]
    if found := _CARET.fullmatch(line):
        return [(found["gutter"], "dim"), (found["caret"], style)]
    if found := _HINT.fullmatch(line):
        return [(found["gutter"], "dim"), ("hint", STYLE_OF["hint"]), f": {found['text']}"]
    if found := _HEAD.fullmatch(line):
        code, _, message = found["rest"].partition("]: ")
        place, kind = (found["place"], "bold"), (found["kind"] + code + "]", style)
        return [place, kind, ": ", (message, "bold")]
    return [line]
