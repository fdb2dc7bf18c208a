"""`omnigraph lint`: checks a schema, and queries against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_catalog, read_text, shown
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, SchemaOrGraph, read_stdin_once
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import STYLE_OF, Part, Screen, counted
from omnigraph.cli.targets import Target
from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.query.lint import LintReport, lint_queries
from omnigraph.lang.schema import lint_schema
from omnigraph.lang.source import Diagnostic, Severity, Source, as_json
from omnigraph.lang.source import render as render_text
from omnigraph.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """The findings in a schema; without a catalog no query can be checked."""

    name: str
    kind: str  # `file` or `graph`
    source: Source
    catalog: Catalog | None
    found: tuple[Diagnostic, ...] = ()
    suppressed: int = 0

    def count(self, severity: Severity) -> int:
        """The number of findings of this severity; those that were left out count as errors."""
        left_out = self.suppressed if severity is Severity.ERROR else 0
        return sum(item.severity is severity for item in self.found) + left_out


@command(
    "omnigraph lint --schema people.pg",
    "omnigraph lint --schema people.pg --query people.gq --query reports.gq",
    "omnigraph lint people.omni --query people.gq --json",
    branch=True,
    unless="schema",
)
def lint(
    target: Target | None,
    schema: SchemaOrGraph = None,
    query: Annotated[
        list[Path] | None,
        Option(
            "--query",
            "-q",
            metavar="FILE",
            help="A file of queries, - for standard input; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> Status:
    """Check a schema, and queries against it (alias: check).

    The schema is that of a file or of a graph.

    Everything that is wrong is reported at once, with its place and, where possible, a hint.
    Ends with 0 if there are no errors; warnings are allowed.
    """
    queries = query or []
    read_stdin_once(schema, *queries)
    chosen = settings()
    if target is not None:
        about_schema = _lint_text(str(target.address), target.schema(), "graph")
    else:
        assert schema is not None
        about_schema = _lint_schema(schema, chosen)
    reports: list[LintReport] = []
    if about_schema.catalog is not None:
        catalog = about_schema.catalog
        reports = [lint_queries(read_text(path, chosen), catalog, shown(path)) for path in queries]
    if as_json:
        render.out().json(_to_json(about_schema, reports, several=len(queries) > 1))
    else:
        _print(render.out(), about_schema, reports, chosen.diagnostics_max)
    return Status.OK if _counts(about_schema, reports)["errors"] == 0 else Status.FAILED


def _lint_schema(path: Path, chosen: Settings) -> SchemaReport:
    if path.suffix == ".json":
        catalog = read_catalog(path, chosen)
        return SchemaReport(
            name=shown(path), kind="file", source=Source(str(path), ""), catalog=catalog
        )
    return _lint_text(shown(path), read_text(path, chosen))


def _lint_text(name: str, text: str, kind: str = "file") -> SchemaReport:
    result, found = lint_schema(text, name)
    return SchemaReport(
        name=name,
        kind=kind,
        source=found.source,
        catalog=None if found.errors else result,
        found=found.sorted(),
        suppressed=found.suppressed,
    )


def _counts(about_schema: SchemaReport, reports: Sequence[LintReport]) -> dict[str, int]:
    everyone: tuple[SchemaReport | LintReport, ...] = (about_schema, *reports)
    return {
        "queries_processed": sum(len(item.checked) for item in reports),
        "errors": sum(item.count(Severity.ERROR) for item in everyone),
        "warnings": sum(item.count(Severity.WARNING) for item in everyone),
        "infos": sum(item.count(Severity.INFO) for item in everyone),
    }


# -- as JSON -------------------------------------------------------------------------------


def _to_json(
    about_schema: SchemaReport, reports: Sequence[LintReport], *, several: bool
) -> dict[str, JsonValue]:
    """One report, about the schema and at most one query file; or a list of them under totals."""
    totals = _counts(about_schema, reports)
    origin: JsonValue = {"kind": about_schema.kind, "path": about_schema.name}
    of_schema = [as_json(about_schema.source, item) for item in about_schema.found]
    shared: dict[str, JsonValue] = {
        "status": "error" if totals["errors"] else "ok",
        "schema_source": origin,
    }
    if several:
        plain = [report.to_json(origin) for report in reports]
        return {**shared, **totals, "findings": of_schema, "reports": plain}
    if not reports:
        return {**shared, "query_path": None, **totals, "results": [], "findings": of_schema}
    whole = reports[0].to_json(origin)
    found = whole["findings"]
    whole["findings"] = [*of_schema, *(found if isinstance(found, list) else ())]
    return {**whole, **shared, **totals}


# -- as text -------------------------------------------------------------------------------


def _print(
    screen: Screen, about_schema: SchemaReport, reports: Sequence[LintReport], most: int
) -> None:
    found = [(about_schema.source, item) for item in about_schema.found]
    found += [(report.source, item) for report in reports for item in report.diagnostics()]
    for source, item in found[:most]:
        screen.report(render_text(source, [item]))
        screen.line()
    left_out = len(found[most:]) + about_schema.suppressed
    left_out += sum(report.suppressed for report in reports)
    if left_out:
        screen.line(f"... and {left_out} more")
        screen.line()
    screen.line(*_summary(about_schema, reports))


def _summary(about_schema: SchemaReport, reports: Sequence[LintReport]) -> list[Part]:
    totals = _counts(about_schema, reports)
    parts: list[Part] = []
    if reports:
        parts.append(counted(totals["queries_processed"], "query", "queries"))
    elif (catalog := about_schema.catalog) is not None:
        parts.append(counted(len(catalog.nodes), "node type"))
        parts.append(f", {counted(len(catalog.edges), 'edge type')}")
    else:
        parts.append("the schema does not compile")
    for word in ("error", "warning"):
        number = totals[f"{word}s"]
        parts += [", ", (counted(number, word), STYLE_OF[word] if number else "green")]
    if totals["infos"]:
        parts += [", ", (counted(totals["infos"], "note"), STYLE_OF["info"])]
    return parts
