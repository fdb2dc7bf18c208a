"""Output on a terminal that shows colours. It imports rich, so it is imported only there."""

from collections.abc import Sequence
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from omnigraph.cli.plain import NULL, Part, Screen, column_widths, plain

_DIFF: Final = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_GAP_CHARS: Final = 2
_LAST_COLUMN_CHARS_MIN: Final = 32


class Terminal(Screen):
    """A screen with colours, whose tables fit themselves to its width."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`, which is known to understand colours."""
        self._console = Console(
            file=stream, force_terminal=True, highlight=False, markup=False, emoji=False
        )
        super().__init__(stream, self._console.width)

    def line(self, *parts: Part) -> None:
        """Write one line, however long."""
        self._console.print(Text().join(_styled(part) for part in parts), soft_wrap=True)

    def message(self, *parts: Part) -> None:
        """Write a text for people, broken between words."""
        self._console.print(Text().join(_styled(part) for part in parts))

    def diff(self, text: str) -> None:
        """Write a unified diff in the usual colours."""
        for line in text.removesuffix("\n").split("\n"):
            style = next((style for mark, style in _DIFF if line.startswith(mark)), "")
            self.line((line, style))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        """Write a table whose last column wraps, or moves below its row where that is too tight."""
        widths = column_widths([headings, *rows])
        left = self._console.width - sum(width + _GAP_CHARS for width in widths[:-1])
        if left >= min(widths[-1], _LAST_COLUMN_CHARS_MIN):
            self._side_by_side(headings, rows)
        else:
            self._stacked(headings, rows, widths)

    def _side_by_side(self, headings: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for heading in headings[:-1]:
            table.add_column(heading, no_wrap=True)
        table.add_column(headings[-1], overflow="fold")
        for row in rows:
            table.add_row(*(_styled(part) for part in row))
        self._console.print(table)

    def _stacked(
        self, headings: Sequence[str], rows: Sequence[Sequence[Part]], widths: Sequence[int]
    ) -> None:
        titled: list[Part] = [(heading, "bold") for heading in headings[:-1]]
        for row in ([*titled, ""], *rows):
            cells = [_styled(part) for part in row[:-1]]
            for cell, width in zip(cells, widths, strict=False):
                cell.pad_right(width + _GAP_CHARS - len(cell))
            line = Text().join(cells)
            line.rstrip()
            line.truncate(self._console.width, overflow="ellipsis")
            self._console.print(line, soft_wrap=True)
            note = plain(row[-1])
            if note and note != NULL:
                self._console.print(Padding(Text(note, "dim"), (0, 0, 0, 4)))


def _styled(part: Part) -> Text:
    return Text(plain(part), "" if isinstance(part, str) else part[1])
