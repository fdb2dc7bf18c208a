"""Names that fit at a place of the shell's input: types, edges, properties, commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from omnigraph.lang.catalog.model import Catalog

KEYWORDS: Final = (
    "query", "match", "return", "order", "limit", "optional", "not", "exists", "insert", "update",
    "set", "where", "delete", "asc", "desc", "and", "or", "is", "null", "as", "count", "sum", "avg",
    "min", "max", "collect", "search", "nearest", "bm25",
)  # fmt: skip

_BOUND: Final = re.compile(r"\$(\w+)\s*:\s*(\w+)")
_TYPE_PLACE: Final = re.compile(r"(?:\$\w+\s*:|\b(?:insert|update|delete))\s*\w*$")
_PROPERTY_PLACE: Final = re.compile(r"\$(\w+)\.\w*$")
_FIELD_PLACE: Final = re.compile(r"(?:\$\w+\s*:\s*|\b(?:insert|update)\s+)(\w+)[^{}]*\{[^{}]*$")
_EDGE_PLACE: Final = re.compile(r"\$\w+\s+\w*$")
_VARIABLE_PLACE: Final = re.compile(r"\$\w*$")
_VARIABLE: Final = re.compile(r"\$\w+")
_WORD: Final = re.compile(r"[\w$:/.~-]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellNames:
    """The names that a graph has.

    Attributes:
        properties: The properties of each type, by its name.
        edges: The edge types as queries spell them.
        commands: The commands of the shell, with the values that each takes.
    """

    properties: Mapping[str, Sequence[str]] = field(default_factory=dict)
    edges: Sequence[str] = ()
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)


def names_of(catalog: Catalog, commands: Mapping[str, Sequence[str]]) -> ShellNames:
    """The names of a catalog."""
    return ShellNames(
        properties={
            each.name: tuple(each.property_by_name) for each in (*catalog.nodes, *catalog.edges)
        },
        edges=tuple(each.name[0].lower() + each.name[1:] for each in catalog.edges),
        commands=commands,
    )


def completions(text: str, names: ShellNames) -> tuple[str, list[str]]:
    """The word before the cursor, and the names that begin with it and fit there.

    Args:
        text: The input up to the cursor.
        names: The names that there are.
    """
    if text.lstrip().startswith(":"):
        return _of_command(text.lstrip(), names)
    word = _WORD.search(text)
    last = "" if word is None else word[0]
    if place := _PROPERTY_PLACE.search(text):
        bound = dict(_BOUND.findall(text))
        known = names.properties.get(bound.get(place[1], ""))
        return _fitting(last.rpartition(".")[2], known or _every(names.properties.values()))
    if _TYPE_PLACE.search(text):
        return _fitting(last.rpartition(":")[2].lstrip(), names.properties)
    if _VARIABLE_PLACE.search(text):
        variables = {each for each in _VARIABLE.findall(text) if each != last}
        return _fitting("$" + last.rpartition("$")[2], sorted(variables))
    if _EDGE_PLACE.search(text):
        return _fitting(last, names.edges)
    if (place := _FIELD_PLACE.search(text)) and place[1] in names.properties:
        return _fitting(last, (*names.properties[place[1]], "from", "to"))
    return _fitting(last, KEYWORDS)


def _of_command(text: str, names: ShellNames) -> tuple[str, list[str]]:
    command, is_complete, value = text.partition(" ")
    if not is_complete:
        return _fitting(command, names.commands)
    return _fitting(value.rpartition(" ")[2], names.commands.get(command, ()))


def _every(groups: Iterable[Sequence[str]]) -> list[str]:
    return sorted({name for group in groups for name in group})


def _fitting(word: str, known: Iterable[str]) -> tuple[str, list[str]]:
    return word, [name for name in known if name.startswith(word) and name != word]
