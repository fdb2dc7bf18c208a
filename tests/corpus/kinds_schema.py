"""What the schema language makes of a case.

A case may start with a line of flags: `// accepted` checks as a schema that is in force already,
`// allow-data-loss` plans with hard drops. A migration has its two schemas around a line
`// ---- wanted ----`.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.errors import InvalidInput
from omnigraph.lang.catalog.canonical import dumps, loads, shape_digest
from omnigraph.lang.catalog.identity import adopt
from omnigraph.lang.catalog.migrate import plan
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.schema import (
    SchemaFile,
    compile_schema,
    format_schema_text,
    lint_schema,
    parse_schema,
)
from omnigraph.lang.source import Diagnostics, Source, render
from tests.corpus.harness import kind
from tests.corpus.render_schema import render_catalog, render_plan

NAME = "case.pg"
_WANTED = "// ---- wanted ----\n"


@kind("schema/accept")
def accept(text: str, _folder: Path) -> str:
    """Warnings and the catalog; on the way, everything that must hold for any catalog."""
    catalog, found = lint_schema(text, NAME, accepted=_flag(text, "accepted"))
    report = render(found.source, found.sorted())
    if catalog is None:
        return f"REJECTED\n{report}"
    assert loads(dumps(catalog)) == catalog
    again = compile_schema(format_schema_text(text), accepted=_flag(text, "accepted"))
    assert again == catalog
    shown = render_catalog(catalog)
    return f"{report}\n\n{shown}" if report else shown


@kind("schema/reject")
def reject(text: str, _folder: Path) -> str:
    """The report of everything that is wrong."""
    try:
        compile_schema(text, NAME)
    except InvalidInput as error:
        return f"{error.code}\n{error}"
    return "ACCEPTED"


@kind("schema/format")
def reformat(text: str, _folder: Path) -> str:
    """The canonical spelling, which must keep tree and comments and be stable."""
    formatted = format_schema_text(text, NAME)
    assert format_schema_text(formatted, NAME) == formatted
    before, after = _parse(text), _parse(formatted)
    assert before == after
    kept = [comment.text for comment in before.comments]
    assert [comment.text for comment in after.comments] == kept
    return formatted


@kind("schema/migrate")
def migrate(text: str, _folder: Path) -> str:
    """The plan from the first schema to the second."""
    first, _, second = text.partition(_WANTED)
    accepted = adopt(compile_schema(first, "accepted.pg"), Catalog())
    wanted = compile_schema(second, "wanted.pg")
    found = plan(accepted, wanted, allow_data_loss=_flag(text, "allow-data-loss"))
    assert shape_digest(found.result) == shape_digest(wanted)
    if found.supported:
        assert plan(found.result, wanted).steps == ()
    assert found.to_json()["supported"] is found.supported
    return render_plan(found)


def _flag(text: str, flag: str) -> bool:
    head = text.partition("\n")[0]
    return head.startswith("//") and flag in head.split()


def _parse(text: str) -> SchemaFile:
    source = Source(NAME, text)
    return parse_schema(source, Diagnostics(source))
