"""`python -m bench [GROUP]... [--json FILE]`."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import commit, compile, report
from bench.measure import Case, measure
from omnigraph.errors import JsonValue

# A group answers its cases, and remarks to print below the table.
GROUPS: Mapping[str, Callable[[], tuple[list[Case], list[str]]]] = {
    "compile": compile.cases,
    "commit": commit.cases,
}


def main() -> None:
    """Measure the chosen groups. A missed target is told, and is no failure."""
    arguments = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    arguments.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    arguments.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    chosen = arguments.parse_args()
    if unknown := set(chosen.groups) - set(GROUPS):
        arguments.error(f"no such group: {', '.join(sorted(unknown))}")
    figures: dict[str, JsonValue] = {}
    for name in chosen.groups or GROUPS:
        cases, remarks = GROUPS[name]()
        outcomes = measure(cases)
        report.show(name, outcomes, remarks)
        figures[name] = report.to_json(outcomes)
    if chosen.json is not None:
        text = json.dumps({"facts": report.facts(), "groups": figures}, indent=2)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
