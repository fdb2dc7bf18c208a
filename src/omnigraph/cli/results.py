"""Rows of a query as text: a table, one field per line, CSV, JSON lines or one JSON document."""

import base64
import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, Literal, TypeAlias

from omnigraph.cli.plain import Screen, counted
from omnigraph.errors import JsonValue

Format: TypeAlias = Literal["table", "kv", "csv", "jsonl", "json"]

# A table shows the first and the last rows; the other formats show all.
_SHOWN_MAX: Final = 100
_ENDS: Final = 45
_CELL_MAX: Final = 60
_NULL: Final = "-"


def show_rows(
    screen: Screen, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], form: Format
) -> None:
    """Write rows in a format."""
    match form:
        case "json":
            screen.json([plain_row(row) for row in rows])
        case "jsonl":
            for row in rows:
                screen.exactly(json.dumps(plain_row(row), ensure_ascii=False) + "\n")
        case "csv":
            screen.exactly(_csv(columns, rows))
        case "kv":
            _show_fields(screen, columns, rows)
        case "table":
            _show_table(screen, columns, rows)


def plain_row(row: Mapping[str, Any]) -> dict[str, JsonValue]:
    """A row as JSON can say it."""
    return {name: plain_value(value) for name, value in row.items()}


def plain_value(value: Any) -> JsonValue:
    """A value as JSON can say it: dates as texts, bytes in base 64."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"base64:{base64.b64encode(value).decode()}"
    if isinstance(value, Mapping):
        return plain_row(value)
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    plain: JsonValue = value
    return plain


def _show_table(screen: Screen, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    if columns:
        cells = [[_cell(row[name]) for name in columns] for row in rows]
        if len(cells) > _SHOWN_MAX:
            left_out = len(cells) - 2 * _ENDS
            middle = [f"… {left_out:,} more", *([""] * (len(columns) - 1))]
            cells = [*cells[:_ENDS], middle, *cells[-_ENDS:]]
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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else _text(row[name]) for name in columns])
    return out.getvalue()


def _cell(value: Any) -> str:
    text = _text(value).replace("\n", " ")
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def _text(value: Any) -> str:
    if value is None:
        return _NULL
    plain = plain_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
