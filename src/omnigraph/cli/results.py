"""Rows as text: a table, one field per line, CSV, JSON lines or one JSON document."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import NULL, Part, Screen, counted
from omnigraph.errors import JsonValue
from omnigraph.results.json_values import json_value

Format: TypeAlias = Literal["table", "kv", "csv", "jsonl", "json"]
Form = Annotated[
    Format | None,
    Option("--format", "-f", help="How to print the rows; a table if nothing says else."),
]

# A table shows the first and the last rows; the other formats show all.
_SHOWN_ROWS_MAX: Final = 100
_ROWS_AT_EACH_END: Final = 45
_CELL_CHARS_MAX: Final = 60
_CELL_CHARS_MIN: Final = 6
_GAP_CHARS: Final = 2
_FRACTION: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z")


@dataclass(frozen=True, slots=True)
class ListingColumn:
    """A column of a listing.

    Attributes:
        field: The name of its values in records, JSON and CSV.
        heading: Its name in a table.
        style: Its style on a terminal.
    """

    field: str
    heading: str
    style: str = ""


def chosen_format(form: Format | None, default: str | None, *, as_json: bool) -> Format:
    """The format of rows: as the command says, else as the configuration does, else a table."""
    if as_json:
        return "json"
    known = {name: name for name in get_args(Format)}
    found: Format = form or known.get(default or "table", "table")
    return found


def show_listing(
    screen: Screen,
    columns: Sequence[ListingColumn],
    records: Sequence[Mapping[str, Any]],
    form: Format,
) -> None:
    """Write records, whose fields are named as on the wire, in a format."""
    if form != "table":
        show_rows(
            screen, list(records[0]) if records else [c.field for c in columns], records, form
        )
        return
    rows: list[list[Part]] = [
        [
            (_listed(record[c.field]), c.style) if c.style else _listed(record[c.field])
            for c in columns
        ]
        for record in records
    ]
    screen.table([c.heading for c in columns], rows)


def _listed(value: Any) -> str:
    """A value of a listing: times to the second, so that the table fits a terminal."""
    return _FRACTION.sub(r"\1Z", shown_value(value))


def show_rows(
    screen: Screen, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], form: Format
) -> None:
    """Write rows in a format."""
    match form:
        case "json":
            screen.json([plain_row(row) for row in rows])
        case "jsonl":
            show_lines(screen, map(plain_row, rows))
        case "csv":
            screen.exactly(_csv(columns, rows))
        case "kv":
            _show_fields(screen, columns, rows)
        case "table":
            _show_table(screen, columns, rows)


def show_lines(screen: Screen, documents: Iterable[JsonValue]) -> None:
    """Write documents as JSON lines, each as soon as it is there."""
    for each in documents:
        screen.exactly(json.dumps(each, ensure_ascii=False) + "\n")


def plain_row(row: Mapping[str, Any]) -> dict[str, JsonValue]:
    """A row as JSON can say it."""
    return {name: json_value(value) for name, value in row.items()}


def fitted(table: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """A table, whose first row are headings, cut so that it is not wider than so many characters.

    Values are cut first, then headings; what has very many columns stays too wide.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    headings = [max(_CELL_CHARS_MIN, len(heading)) for heading in table[0]]
    for least in (headings, [_CELL_CHARS_MIN] * len(widths)):
        while sum(widths) + _GAP_CHARS * (len(widths) - 1) > width:
            most = max(range(len(widths)), key=lambda at: widths[at] - least[at])
            if widths[most] <= least[most]:
                break
            widths[most] -= 1
    return [[_cut(cell, most) for cell, most in zip(row, widths, strict=True)] for row in table]


def _show_table(screen: Screen, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    if columns:
        is_long = len(rows) > _SHOWN_ROWS_MAX
        shown = [*rows[:_ROWS_AT_EACH_END], *rows[-_ROWS_AT_EACH_END:]] if is_long else rows
        cells = [[shown_value(row[name]) for name in columns] for row in shown]
        if screen.width is not None:
            columns, *cells = fitted([columns, *cells], screen.width)
        if is_long:
            middle = [f"… {len(rows) - 2 * _ROWS_AT_EACH_END:,} more", *([""] * (len(columns) - 1))]
            cells.insert(_ROWS_AT_EACH_END, middle)
        screen.table(columns, cells)
    screen.line((counted(len(rows), "row"), "dim"))


def _show_fields(screen: Screen, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    width = max((len(name) for name in columns), default=0)
    for number, row in enumerate(rows):
        if number:
            screen.line()
        for name in columns:
            screen.line((name.ljust(width), "bold"), f"  {_text(row[name])}")


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else _text(row[name]) for name in columns])
    return out.getvalue()


def shown_value(value: Any) -> str:
    """A value as a cell of a table shows it."""
    return _cut(_text(value).replace("\n", " "), _CELL_CHARS_MAX)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any) -> str:
    if value is None:
        return NULL
    shown = json_value(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
