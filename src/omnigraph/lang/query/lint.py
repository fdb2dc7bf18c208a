"""Lint: every error of a query file, and what compiles but deserves a second look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.ir.ops import MutationPlan, ReadPlan, Scan, UpdateOp
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.compile import Checked, check_file
from omnigraph.lang.query.describe import describe
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.source import Diagnostic, Diagnostics, Severity, Source, Span, as_json


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic with the queries, type and property that it is about."""

    diagnostic: Diagnostic
    query_names: tuple[str, ...] = ()
    type_name: str | None = None
    property: str | None = None


@dataclass(frozen=True, slots=True)
class LintReport:
    """The findings of lint in one file."""

    source: Source
    checked: tuple[Checked, ...]
    findings: tuple[Finding, ...]
    suppressed: int

    def count(self, severity: Severity) -> int:
        """The number of findings of this severity; suppressed ones are errors."""
        found = sum(item.diagnostic.severity is severity for item in self.findings)
        return found + self.suppressed if severity is Severity.ERROR else found

    @property
    def ok(self) -> bool:
        """True without errors; warnings are allowed."""
        return self.count(Severity.ERROR) == 0

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The plain diagnostics, by position."""
        return tuple(item.diagnostic for item in self.findings)

    def to_json(self, schema_source: JsonValue = None) -> dict[str, JsonValue]:
        """The report as plain values."""
        return {
            "status": "ok" if self.ok else "error",
            "schema_source": schema_source,
            "query_path": self.source.name,
            "queries_processed": len(self.checked),
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "infos": self.count(Severity.INFO),
            "results": [self._result(item) for item in self.checked],
            "findings": [self._finding(item) for item in self.findings],
        }

    def _result(self, item: Checked) -> JsonValue:
        name = item.query.name.text
        mine = [found for found in self.findings if name in found.query_names]
        errors = [f.diagnostic for f in mine if f.diagnostic.severity is Severity.ERROR]
        warnings: list[JsonValue] = [
            f.diagnostic.message for f in mine if f.diagnostic.severity is Severity.WARNING
        ]
        kind = "read" if isinstance(item.query.body, ast.Read) else "mutation"
        plain: dict[str, JsonValue] = {
            "name": name,
            "kind": kind,
            "status": "error" if item.plan is None or errors else "ok",
            "warnings": warnings,
        }
        if errors:
            plain["error"] = "; ".join(f"{error.code}: {error.message}" for error in errors)
        if item.plan is not None:
            plain["operation"] = describe(item.plan).to_json()
        return plain

    def _finding(self, item: Finding) -> JsonValue:
        plain = as_json(self.source, item.diagnostic)
        plain["query_names"] = list(item.query_names)
        if item.type_name is not None:
            plain["type_name"] = item.type_name
        if item.property is not None:
            plain["property"] = item.property
        return plain


def lint_queries(text: str, catalog: Catalog, name: str = "<query>") -> LintReport:
    """Check a file of queries; nothing is raised for what is wrong in it."""
    source = Source(name, text)
    found = Diagnostics(source)
    file = parse_queries(source, found)
    checked = check_file(file, catalog, found)
    findings = [Finding(item, _owner(item, checked)) for item in found.sorted()]
    for item in checked:
        findings.extend(_query_warnings(item))
    findings.extend(_never_set(checked, catalog))
    findings.sort(key=lambda item: (item.diagnostic.span, item.diagnostic.code))
    return LintReport(source, checked, tuple(findings), found.suppressed)


def _owner(item: Diagnostic, checked: Sequence[Checked]) -> tuple[str, ...]:
    """The query in whose text a diagnostic stands."""
    for query in (entry.query for entry in checked):
        if query.span.start <= item.span.start < max(query.span.end, query.span.start + 1):
            return (query.name.text,)
    return ()


def _warning(
    code: QueryCode,
    message: str,
    query: ast.Query,
    hint: str | None = None,
    span: Span | None = None,
) -> Finding:
    place = query.name.span if span is None else span
    diagnostic = Diagnostic(code.value, message, place, hint, Severity.WARNING)
    return Finding(diagnostic, (query.name.text,))


def _query_warnings(item: Checked) -> list[Finding]:
    found: list[Finding] = []
    query = item.query
    if item.plan is None:
        return found
    if isinstance(item.plan, MutationPlan) and not query.params:
        message = "this mutation takes no parameters, so it can only ever do one thing"
        found.append(_warning(QueryCode.NO_PARAMETERS, message, query))
    for param in item.unused_params:
        message = f"the parameter `${param.name}` is never used"
        found.append(_warning(QueryCode.UNUSED_PARAMETER, message, query, span=param.span))
    if isinstance(item.plan, ReadPlan):
        starts = [op for op in item.plan.pipeline if isinstance(op, Scan)]
        if len(starts) > 1:
            names = ", ".join(f"${op.var}" for op in starts)
            message = f"the pattern falls into parts that nothing connects: {names}"
            hint = "every row of one part is combined with every row of the others"
            found.append(_warning(QueryCode.CROSS_JOIN, message, query, hint))
    return found


def _never_set(checked: Sequence[Checked], catalog: Catalog) -> list[Finding]:
    """Nullable properties that no update query of their type sets."""
    updates: dict[tuple[str, str], list[tuple[Checked, UpdateOp]]] = {}
    for item in checked:
        if isinstance(item.plan, MutationPlan):
            for op in item.plan.ops:
                if isinstance(op, UpdateOp):
                    updates.setdefault((op.entity.kind, op.entity.name), []).append((item, op))
    found: list[Finding] = []
    for (kind, type_name), entries in sorted(updates.items()):
        by_name = catalog.node_by_name if kind == "node" else catalog.edge_by_name
        names = tuple(sorted({entry.query.name.text for entry, _ in entries}))
        assigned = {value.column.name for _, op in entries for value in op.values}
        for name in _settable(by_name[type_name]):
            if name not in assigned:
                message = f"no update of {type_name} ever sets `{name}`"
                span = entries[0][0].query.name.span
                code = QueryCode.NEVER_SET.value
                diagnostic = Diagnostic(code, message, span, None, Severity.WARNING)
                found.append(Finding(diagnostic, names, type_name, name))
    return found


def _settable(entity: EntityType) -> list[str]:
    return [
        item.name
        for item in entity.properties
        if item.type.nullable and item.embed is None and item.name not in entity.key
    ]
