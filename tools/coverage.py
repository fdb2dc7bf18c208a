"""Sum up a coverage report by layer, and hold it against the targets."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

TARGETS = {"core": 95.0, "store": 95.0, "exec": 95.0, "rules": 95.0}


def by_layer(report: Path) -> dict[str, tuple[int, int]]:
    """Return the covered and all lines of each layer."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, file in json.loads(report.read_text())["files"].items():
        parts = Path(name).parts
        layer = parts[parts.index("omnigraph") + 1].removesuffix(".py")
        covered, lines = found[layer]
        summary = file["summary"]
        found[layer] = covered + summary["covered_lines"], lines + summary["num_statements"]
    return dict(found)


def main(report: str) -> int:
    """Print one line per layer; fail when a layer misses its target."""
    missed = False
    for layer, (covered, lines) in sorted(by_layer(Path(report)).items()):
        if not lines:
            continue
        share = 100 * covered / lines
        target = TARGETS.get(layer)
        short = target is not None and share < target
        missed |= short
        aim = "" if target is None else f"  target {target:.0f} %{'  MISSED' if short else ''}"
        print(f"{layer:12} {covered:6} of {lines:6} lines  {share:5.1f} %{aim}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
