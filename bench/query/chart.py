"""The comparison as a drawing: one group of bars per question, times on a logarithmic scale.

Plain SVG without scripts or fonts of its own; the colours follow the reader's light or dark mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Final

from bench.query.engines import OURS
from bench.query.figures import Figures
from bench.report import duration

WIDTH: Final = 860
LEFT: Final = 220  # where the bars begin
RIGHT: Final = 150  # room for what stands behind the longest bar
TOP: Final = 74
BAR: Final = 11
GAP: Final = 2
BETWEEN: Final = 14
BOTTOM: Final = 20

STYLE: Final = """\
text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.name { font-weight: 600; }
.quiet { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.ours { fill: #0a7d5a; }
.peer { fill: #a8b3bf; }
.mine { fill: #0a7d5a; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .quiet { fill: #9198a1; }
  .grid { stroke: #30363d; }
  .ours { fill: #3fb98a; }
  .peer { fill: #57606a; }
  .mine { fill: #3fb98a; }
}"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One engine at one question."""

    engine: str
    median_us: float


def draw(figures: Figures) -> str:
    """The SVG text."""
    groups = [(item, bars) for item in figures.questions if (bars := _bars(figures, item.name))]
    times = [bar.median_us for _, bars in groups for bar in bars]
    scale = Scale.over(times)
    height = TOP + BOTTOM + sum(_height(bars) + BETWEEN for _, bars in groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="Time per query">',
        f"<style>{STYLE}</style>",
        _text(16, 26, "Time per query, warm (median, shorter is better)", "title"),
        _text(16, 44, "logarithmic scale; only engines that give the right answer", "quiet"),
        *_grid(scale, height),
    ]
    y = TOP
    for item, bars in groups:
        middle = y + _height(bars) / 2
        parts.append(_text(LEFT - 10, middle - 2, item.name, "name", anchor="end"))
        parts.append(_text(LEFT - 10, middle + 11, item.title, "quiet", anchor="end"))
        for bar in bars:
            parts += _bar(bar, y, scale)
            y += BAR + GAP
        y += BETWEEN
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Scale:
    """Powers of ten of microseconds, and where they stand."""

    low: int
    high: int

    @classmethod
    def over(cls, times: list[float]) -> Scale:
        """A scale on which all these times have a place; the shortest still has a bar."""
        low = math.floor(math.log10(min(times, default=1.0)) - 0.2)
        return cls(low, max(low + 1, math.ceil(math.log10(max(times, default=10.0)))))

    def place(self, median_us: float) -> float:
        """How far to the right a time stands."""
        share = (math.log10(median_us) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def _bars(figures: Figures, question: str) -> list[Bar]:
    """Ours first, then the others, the fastest on top."""
    found = [
        Bar(name, cell.median_ms * 1e3)
        for name in figures.engines
        if (cell := figures.warm.get((name, question))) is not None and cell.counts
    ]
    return sorted(found, key=lambda bar: (bar.engine != OURS, bar.median_us))


def _height(bars: list[Bar]) -> int:
    return len(bars) * (BAR + GAP) - GAP


def _bar(bar: Bar, y: float, scale: Scale) -> list[str]:
    end = scale.place(bar.median_us)
    kind = "ours" if bar.engine == OURS else "peer"
    label = f"{bar.engine}  {duration(bar.median_us)}"
    return [
        f'<rect class="{kind}" x="{LEFT}" y="{y:g}" width="{end - LEFT:.1f}" height="{BAR}" '
        'rx="1.5"/>',
        _text(end + 6, y + BAR - 1.5, label, "mine" if bar.engine == OURS else "quiet"),
    ]


def _grid(scale: Scale, height: float) -> list[str]:
    parts = []
    for power in range(scale.low, scale.high + 1):
        x = scale.place(10.0**power)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - BOTTOM}"/>'
        )
        parts.append(_text(x, TOP - 12, duration(10.0**power), "quiet", anchor="middle"))
    return parts


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
