"""Files of queries, checked against a schema that is only planned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.query.lint import LintReport, lint_queries
from omnigraph.lang.source import Severity

_SUFFIX: Final = ".gq"


def broken_queries(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], catalog: Catalog
) -> Mapping[str, tuple[str, ...]]:
    """The errors that queries would have with a schema, by file; files without any are left out."""
    reports = [lint_queries(read_file(path, "query"), catalog, str(path)) for path in _files(paths)]
    return {
        report.source.name: tuple(
            _worded(report, at)
            for at, item in enumerate(report.diagnostics())
            if item.severity is Severity.ERROR
        )
        for report in reports
        if not report.ok
    }


def _worded(report: LintReport, at: int) -> str:
    item = report.diagnostics()[at]
    line, column = report.source.position(item.span.start)
    hint = f"; {item.hint}" if item.hint else ""
    return f"{line}:{column}: [{item.code}] {item.message}{hint}"


def _files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files that are named, and those in the folders that are."""
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[Path] = []
    for path in map(Path, named):
        found += sorted(path.rglob(f"*{_SUFFIX}")) if path.is_dir() else [path]
    return found


def read_file(path: Path, kind: str) -> str:
    """The text of a file of a schema or of queries.

    Raises:
        NotFound: There is no such file.
        InvalidInput: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        message = f"there is no {kind} file {path}"
        raise NotFound(Code.FILE_NOT_FOUND, message, path=str(path)) from None
    except (OSError, ValueError) as error:
        message = f"the {kind} file {path} cannot be read: {error}"
        raise InvalidInput(Code.INPUT_INVALID, message, path=str(path)) from error
