"""`python -m bench [GROUP]... [--json FILE]`."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter_ns, process_time_ns

from bench import cli, commit, compile, growth, kernels, outgrown, report, views, wide
from bench.algorithms import group as algorithms
from bench.load import group as load
from bench.load.parts import PARTS
from bench.measure import Case, measure
from bench.query import group as query
from bench.query.engines import ENGINES
from bench.query.questions import QUESTIONS
from bench.server import group as server
from bench.versioning import group as versioning
from bench.years import group as years
from bench.years.group import YEARS_PARTS
from omnigraph.errors import JsonValue

# A group measures, tells, and answers its figures.
GROUPS: Mapping[str, Callable[[argparse.Namespace], JsonValue]] = {
    "cli": lambda _: cli.run(),
    "compile": lambda _: _measured("compile", compile.cases),
    "commit": lambda _: _measured("commit", commit.cases),
    "growth": lambda chosen: growth.run(chosen.scale),
    "wide": lambda _: _measured("wide", wide.cases),
    "views": lambda _: _measured("views", views.cases),
    "kernels": lambda _: _measured("kernels", kernels.cases, process_time_ns),
    "query": lambda chosen: query.run(_query_choice(chosen)),
    "outgrown": lambda chosen: outgrown.run(chosen.scale),
    "algorithms": lambda chosen: algorithms.run(chosen.scale),
    "versioning": lambda chosen: versioning.run(
        chosen.scale, [part for part in chosen.part if part in versioning.PARTS]
    ),
    "years": lambda chosen: years.run(
        chosen.scale, [part for part in chosen.part if part in YEARS_PARTS]
    ),
    "server": lambda chosen: server.run(chosen.scale),
    "load": lambda chosen: load.run(
        load.Choice(scale=chosen.scale, parts=tuple(part for part in chosen.part if part in PARTS))
    ),
}


def _measured(
    name: str,
    cases: Callable[[], tuple[list[Case], list[str]]],
    clock_ns: Callable[[], int] = perf_counter_ns,
) -> JsonValue:
    """A group of cases in this process. They come with remarks to print below the table."""
    found, remarks = cases()
    outcomes = measure(found, clock_ns=clock_ns)
    report.show(name, outcomes, remarks)
    return report.to_json(outcomes)


def _query_choice(chosen: argparse.Namespace) -> query.Choice:
    return query.Choice(
        scale=chosen.scale,
        engines=tuple(chosen.engine),
        questions=tuple(chosen.question),
        cold=not chosen.warm_only,
    )


def main() -> None:
    """Measure the chosen groups. A missed target is told, and is no failure."""
    arguments = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    arguments.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    arguments.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="of `growth`, `query`, `outgrown`, `algorithms`, `versioning`, `years`, `server`, "
        "`load`: how much; below 1 is quick",
    )
    arguments.add_argument(
        "--part",
        action="append",
        default=[],
        choices=(*PARTS, *YEARS_PARTS, *versioning.PARTS),
        help="of `load`, `years` and `versioning`: only this part of it",
    )
    only = arguments.add_argument_group("only for `query`")
    only.add_argument(
        "--engine", action="append", default=[], choices=tuple(ENGINES), help="only this one"
    )
    only.add_argument(
        "--question",
        action="append",
        default=[],
        choices=tuple(item.name for item in QUESTIONS),
        help="only this one",
    )
    only.add_argument("--warm-only", action="store_true", help="no new processes")
    chosen = arguments.parse_args()
    if unknown := set(chosen.groups) - set(GROUPS):
        arguments.error(f"no such group: {', '.join(sorted(unknown))}")
    figures = {name: GROUPS[name](chosen) for name in chosen.groups or GROUPS}
    if chosen.json is not None:
        text = json.dumps({"facts": report.facts(), "groups": figures}, indent=2)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
