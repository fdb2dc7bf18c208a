"""`omnigraph verify`: compares what a graph says about itself with what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Engine, Json, Spark
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import amount, counted
from omnigraph.cli.targets import Target

Depth = Annotated[
    str, Option("--depth", metavar="DEPTH", help="How much: metadata, files or rows.")
]


@command("omnigraph verify people.omni --depth files")
def verify(
    target: Target,
    depth: Depth = "metadata",
    engine: Engine = "auto",
    spark: Spark = None,
    as_json: Json = False,
) -> Status:
    """Compare what a graph says about itself with what is stored.

    Nothing is changed. Ends with 1 if something is wrong; warnings do no harm.
    """
    with (
        target.open(mode="r") as graph,
        render.progress(quiet=target.is_quiet or as_json) as listener,
    ):
        found = graph.verify(depth, engine=engine, spark=spark, progress=listener)
    screen = render.out()
    if as_json:
        screen.json({**asdict(found), "sound": found.is_sound})
    else:
        for finding in found.findings:
            screen.line(f"{finding.severity} ({finding.aspect}) {finding.place}: {finding.text}")
        screen.line(", ".join(_numbers(found)) + (": sound" if found.is_sound else ": not sound"))
    return Status.OK if found.is_sound else Status.FAILED


def _numbers(found: og.VerifyResult) -> Iterator[str]:
    """The numbers of what was looked at; files and rows only if that was asked for."""
    yield counted(found.branches, "branch", "branches")
    yield counted(found.commits, "commit")
    yield counted(found.tables, "table")
    if found.files:
        yield f"{counted(found.files, 'file')} ({amount(found.bytes)})"
    if found.rows:
        yield counted(found.rows, "row")
