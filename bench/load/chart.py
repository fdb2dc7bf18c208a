"""The comparison as a drawing: a group of bars per part, each on a scale of its own."""

from __future__ import annotations

from html import escape
from typing import Final

from bench.load.figures import Figures, Measured, Part
from bench.query.chart import STYLE
from bench.report import duration

WIDTH: Final = 860
LEFT: Final = 330  # where the bars begin
RIGHT: Final = 130  # room for what stands behind the longest bar
TOP: Final = 62
BAR: Final = 13
GAP: Final = 4
BETWEEN: Final = 22
BOTTOM: Final = 16
DRAWN: Final = ("ndjson", "parquet", "vectors", "merge", "export")


def draw(figures: Figures) -> str:
    """The SVG text."""
    groups = [
        (part, bars)
        for part in figures.parts
        if part.name in DRAWN and (bars := [item for item in part.measured if item.seconds])
    ]
    height = TOP + BOTTOM + sum(_height(bars) for _, bars in groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="Time of loads and exports">',
        f"<style>{STYLE}</style>",
        _text(16, 26, "Loads and exports (best of several, shorter is better)", "title"),
        _text(16, 44, "every group has a scale of its own", "quiet"),
    ]
    y = float(TOP)
    for part, bars in groups:
        parts += _group(part, bars, y)
        y += _height(bars)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _height(bars: list[Measured]) -> int:
    return BETWEEN + len(bars) * (BAR + GAP) + BETWEEN // 2


def _group(part: Part, bars: list[Measured], y: float) -> list[str]:
    longest = max(item.seconds or 0.0 for item in bars)
    drawn = [_text(16, y + 14, part.title, "name")]
    y += BETWEEN
    for item in bars:
        seconds = item.seconds or 0.0
        width = seconds / longest * (WIDTH - LEFT - RIGHT)
        kind, words = ("ours", "mine") if item.ours else ("peer", "quiet")
        drawn += [
            _text(LEFT - 8, y + BAR - 2.5, item.name, words, anchor="end"),
            f'<rect class="{kind}" x="{LEFT}" y="{y:g}" width="{width:.1f}" height="{BAR}" '
            'rx="1.5"/>',
            _text(LEFT + width + 6, y + BAR - 2.5, _label(item, seconds), words),
        ]
        y += BAR + GAP
    return drawn


def _label(item: Measured, seconds: float) -> str:
    speed = item.megabytes_per_second
    told = duration(seconds * 1e6)
    return told if speed is None else f"{told}, {speed:,.0f} MB/s"


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
