"""The `.pg` schema language: text in, catalog out."""

from __future__ import annotations

from omnigraph.errors import Code
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.schema.ast import SchemaFile
from omnigraph.lang.schema.check import check_schema
from omnigraph.lang.schema.codes import CODES, SYNTAX
from omnigraph.lang.schema.format import format_schema
from omnigraph.lang.schema.parse import parse_schema
from omnigraph.lang.source import Diagnostics, Source

__all__ = [
    "CODES",
    "SchemaFile",
    "check_schema",
    "compile_schema",
    "format_schema",
    "format_schema_text",
    "lint_schema",
    "parse_schema",
]


def compile_schema(text: str, name: str = "<schema>", *, accepted: bool = False) -> Catalog:
    """The catalog of a schema, or one `InvalidInput` that carries every mistake in it.

    `accepted` is for a schema that is in force already, see `check_schema`.
    """
    catalog, found = lint_schema(text, name, accepted=accepted)
    syntax = any(item.code == SYNTAX for item in found.sorted())
    found.reject_if_errors(Code.SYNTAX if syntax else Code.SCHEMA_INVALID)
    if catalog is None:
        raise AssertionError("a schema without errors has a catalog")
    return catalog


def lint_schema(
    text: str, name: str = "<schema>", *, accepted: bool = False
) -> tuple[Catalog | None, Diagnostics]:
    """The catalog, if there is one, and all findings with the warnings; never raises for text."""
    source = Source(name, text)
    found = Diagnostics(source)
    file = parse_schema(source, found)
    return check_schema(file, found, accepted=accepted), found


def format_schema_text(text: str, name: str = "<schema>") -> str:
    """The canonical spelling of a schema; text that does not parse is rejected."""
    source = Source(name, text)
    found = Diagnostics(source)
    file = parse_schema(source, found)
    found.reject_if_errors(Code.SYNTAX)
    return format_schema(file)
