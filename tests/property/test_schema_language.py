"""What holds for every schema text and every schema tree."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.canonical import digest, shape_digest
from omnigraph.lang.schema import (
    SchemaFile,
    compile_schema,
    format_schema,
    format_schema_text,
    lint_schema,
    parse_schema,
)
from omnigraph.lang.schema.ast import Declaration, EnumDecl, InterfaceDecl
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.testing.strategies_schema import schema_files, valid_schema_files
from tests.corpus.harness import cases

SEEDS = sorted({case.text for case in cases("schema/")})
PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*\n|/\*.*?\*/|\w+|\s+|.', re.DOTALL)
FORMATTABLE = [case.text for case in cases("schema/accept") + cases("schema/format")]


def parse(text: str) -> SchemaFile:
    source = Source("<test>", text)
    found = Diagnostics(source)
    file = parse_schema(source, found)
    assert found.sorted() == ()
    return file


def compiles_or_complains(text: str) -> None:
    catalog, found = lint_schema(text)
    assert (catalog is None) == (found.errors > 0)
    if catalog is not None:
        assert compile_schema(text) == catalog
        assert digest(catalog)
        return
    with pytest.raises(InvalidInput) as caught:
        compile_schema(text)
    assert caught.value.code in (Code.SYNTAX, Code.SCHEMA_INVALID)
    assert caught.value.details["diagnostics"]


@given(st.text())
def test_any_text_compiles_or_is_rejected(text: str) -> None:
    compiles_or_complains(text)


@given(st.lists(st.sampled_from(PIECES.findall("\n".join(SEEDS)))))
def test_any_pieces_compile_or_are_rejected(pieces: list[str]) -> None:
    compiles_or_complains(" ".join(pieces))


@given(st.data())
def test_broken_programs_compile_or_are_rejected(data: st.DataObject) -> None:
    pieces = PIECES.findall(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        if not pieces:
            break
        at = data.draw(st.integers(0, len(pieces) - 1))
        other = data.draw(st.integers(0, len(pieces) - 1))
        match data.draw(st.sampled_from(["delete", "double", "swap", "insert"])):
            case "delete":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "swap":
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces.insert(at, data.draw(st.sampled_from('{}()[]@:,?.-"$\\;é\ud800')))
    compiles_or_complains("".join(pieces))


@given(schema_files())
def test_formatted_trees_parse_to_themselves(file: SchemaFile) -> None:
    text = format_schema(file)
    again = parse(text)
    assert again == file
    assert format_schema(again) == text


@given(st.data())
def test_comments_survive_wherever_they_stand(data: st.DataObject) -> None:
    pieces = PIECES.findall(data.draw(st.sampled_from(FORMATTABLE)))
    comments = ["// note\n", "/* note */", "/* two\n   lines */", "\n\n", "/**/", "//\r\n"]
    for _ in range(data.draw(st.integers(1, 5))):
        # Not into a word: `a/**/b` is two words, and an enum value may hold several pieces.
        places = [at for at, piece in enumerate(pieces) if piece.isspace()]
        if places:
            at = data.draw(st.sampled_from(places))
            pieces[at] += data.draw(st.sampled_from(comments)) + " "
    text = "".join(pieces)
    formatted = format_schema_text(text)
    before, after = parse(text), parse(formatted)
    assert after == before
    assert [item.text for item in after.comments] == [item.text for item in before.comments]
    assert format_schema_text(formatted) == formatted


@given(valid_schema_files(), st.data())
def test_order_does_not_change_the_catalog(file: SchemaFile, data: st.DataObject) -> None:
    catalog = compile_schema(format_schema(file))
    mixed = compile_schema(format_schema(shuffled(file, data)))
    assert mixed == catalog
    assert shape_digest(mixed) == shape_digest(catalog)


def shuffled(file: SchemaFile, data: st.DataObject) -> SchemaFile:
    """The same declarations and members in another order."""
    items: list[Declaration] = []
    for item in data.draw(st.permutations(file.declarations)):
        if isinstance(item, EnumDecl):
            items.append(replace(item, values=tuple(data.draw(st.permutations(item.values)))))
        elif isinstance(item, InterfaceDecl):
            properties = tuple(data.draw(st.permutations(item.properties)))
            items.append(replace(item, properties=properties))
        else:
            items.append(replace(item, members=tuple(data.draw(st.permutations(item.members)))))
    return SchemaFile(tuple(items))
